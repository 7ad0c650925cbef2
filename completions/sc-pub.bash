# bash completion for sc-pub; made by: sc-pub --print-completion bash
# shellcheck shell=bash
_sc_pub() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local options='' verbs='' paths=0 kind='' words=''
	COMPREPLY=()
	if [[ $cur == '=' ]]; then
		cur=''
	elif [[ $prev == '=' ]]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	fi
		options='--pairs --bare --numbered --wrap -P --producer --epoch --last --at-least-once --window --batch --events -q --quiet --create --close --state --stream-seq --protocol -H --header --header-file -T --token-file --user-file --origin --subprotocol --user-agent --ca --cert --key --server-name -k --insecure --proxy --connect-timeout -z --compress --upgrade-timeout --ping --pong-timeout -i --idle --max-message --read-ahead --retry --retry-for --retry-wait --retry-refused -v --verbose --json --options-file -h --help --version'
		paths=0
		case $prev in
		-P | --producer) kind=none ;;
		--epoch) kind=none ;;
		--window) kind=none ;;
		--batch) kind=none ;;
		--events) kind=none ;;
		--create) kind=none ;;
		--state) kind=files ;;
		--stream-seq) kind=words words='no end skip' ;;
		--protocol) kind=words words='auto streamcast durable' ;;
		-H | --header) kind=none ;;
		--header-file) kind=files ;;
		-T | --token-file) kind=files ;;
		--user-file) kind=files ;;
		--origin) kind=none ;;
		--subprotocol) kind=none ;;
		--user-agent) kind=none ;;
		--ca) kind=files ;;
		--cert) kind=files ;;
		--key) kind=files ;;
		--server-name) kind=none ;;
		--proxy) kind=none ;;
		--connect-timeout) kind=words words='none' ;;
		--upgrade-timeout) kind=words words='none' ;;
		--ping) kind=words words='none' ;;
		--pong-timeout) kind=words words='none' ;;
		-i | --idle) kind=words words='none' ;;
		--max-message) kind=none ;;
		--read-ahead) kind=none ;;
		--retry) kind=none ;;
		--retry-for) kind=words words='none' ;;
		--retry-wait) kind=none ;;
		--options-file) kind=files ;;
		esac
	case $kind in
	none) return 0 ;;
	words) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur") ;;
	files)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		;;
	*)
		if [[ $cur == -* ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
		elif [[ -n $verbs ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$cur")
		elif ((paths)); then
			compopt -o filenames 2>/dev/null
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		fi
		;;
	esac
	return 0
}
complete -F _sc_pub sc-pub

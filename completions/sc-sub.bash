# bash completion for sc-sub; made by: sc-sub --print-completion bash
# shellcheck shell=bash
_sc_sub() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local options='' verbs='' paths=0 kind='' words=''
	COMPREPLY=()
	if [[ $cur == '=' ]]; then
		cur=''
	elif [[ $prev == '=' ]]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	fi
		options='-o --offset -a --after --at -c --cursor -C --catch-up -A --archive --catch-up-rounds --archive-ca -F --filter -p --payload --contiguous --events -e --exec --exec-rows --ack-fd -n --count --to --until-end --until-idle --protocol --live -H --header --header-file -T --token-file --user-file --origin --subprotocol --user-agent --ca --cert --key --server-name -k --insecure --proxy --connect-timeout -z --compress --upgrade-timeout --ping --pong-timeout -i --idle --max-message --read-ahead --retry --retry-for --retry-wait --retry-refused -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=0
		case $prev in
		-o | --offset) kind=words words='earliest' ;;
		-a | --after) kind=none ;;
		--at) kind=none ;;
		-c | --cursor) kind=files ;;
		-A | --archive) kind=none ;;
		--catch-up-rounds) kind=none ;;
		--archive-ca) kind=files ;;
		-F | --filter) kind=none ;;
		--events) kind=none ;;
		-e | --exec) kind=none ;;
		--exec-rows) kind=none ;;
		--ack-fd) kind=none ;;
		-n | --count) kind=none ;;
		--to) kind=none ;;
		--until-idle) kind=words words='none' ;;
		--protocol) kind=words words='auto streamcast durable' ;;
		--live) kind=words words='long-poll sse' ;;
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
complete -F _sc_sub sc-sub

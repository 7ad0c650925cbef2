# bash completion for sc-broker; made by: sc-broker --print-completion bash
# shellcheck shell=bash
_sc_broker() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local options='' verbs='' paths=0 kind='' words=''
	COMPREPLY=()
	if [[ $cur == '=' ]]; then
		cur=''
	elif [[ $prev == '=' ]]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	fi
		options='-l --listen --ready-fd --root --tls-cert --tls-key --client-ca -T --token-file --admin-token-file --no-auth --origin --queue-size --max-memory --max-age --max-message --state --no-state --ack-timeout --order --plain-acks --max-nodes --max-per-address --endpoint-idle --handshake-timeout --ping --pong-timeout --grace --stats -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=0
		case $prev in
		-l | --listen) kind=none ;;
		--ready-fd) kind=none ;;
		--root) kind=none ;;
		--tls-cert) kind=files ;;
		--tls-key) kind=files ;;
		--client-ca) kind=files ;;
		-T | --token-file) kind=files ;;
		--admin-token-file) kind=files ;;
		--origin) kind=none ;;
		--queue-size) kind=none ;;
		--max-memory) kind=none ;;
		--max-age) kind=none ;;
		--max-message) kind=none ;;
		--state) kind=files ;;
		--ack-timeout) kind=none ;;
		--order) kind=words words='document reference' ;;
		--max-nodes) kind=none ;;
		--max-per-address) kind=none ;;
		--endpoint-idle) kind=none ;;
		--handshake-timeout) kind=none ;;
		--ping) kind=words words='none' ;;
		--pong-timeout) kind=none ;;
		--grace) kind=none ;;
		--stats) kind=none ;;
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
complete -F _sc_broker sc-broker

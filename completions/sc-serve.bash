# bash completion for sc-serve; made by: sc-serve --print-completion bash
# shellcheck shell=bash
_sc_serve() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local options='' verbs='' paths=0 kind='' words=''
	COMPREPLY=()
	if [[ $cur == '=' ]]; then
		cur=''
	elif [[ $prev == '=' ]]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	fi
		options='-l --listen --ready-fd --cert --key --client-ca -T --token-file --origin --publish --wire -z --compress -A --archive --replay-archive --max-replay --max-backlog --ring --max-message --max-clients --max-per-address --max-memory --max-header --handshake-timeout --idle-timeout --ping --pong-timeout --grace -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		-l | --listen) kind=none ;;
		--ready-fd) kind=none ;;
		--cert) kind=files ;;
		--key) kind=files ;;
		--client-ca) kind=files ;;
		-T | --token-file) kind=files ;;
		--origin) kind=none ;;
		--wire) kind=words words='1 2 4 5' ;;
		-A | --archive) kind=none ;;
		--max-replay) kind=none ;;
		--max-backlog) kind=none ;;
		--ring) kind=none ;;
		--max-message) kind=none ;;
		--max-clients) kind=none ;;
		--max-per-address) kind=none ;;
		--max-memory) kind=none ;;
		--max-header) kind=none ;;
		--handshake-timeout) kind=none ;;
		--idle-timeout) kind=none ;;
		--ping) kind=words words='none' ;;
		--pong-timeout) kind=none ;;
		--grace) kind=none ;;
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
complete -F _sc_serve sc-serve

# bash completion for sc-catchup; made by: sc-catchup --print-completion bash
# shellcheck shell=bash
_sc_catchup() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local options='' verbs='' paths=0 kind='' words=''
	COMPREPLY=()
	if [[ $cur == '=' ]]; then
		cur=''
	elif [[ $prev == '=' ]]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	fi
		options='--from --to --since --until -p --payload -t --times --speed --verify -A --archive --retry --retry-for --ca -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		--from) kind=words words='earliest' ;;
		--to) kind=none ;;
		--since) kind=none ;;
		--until) kind=none ;;
		--speed) kind=none ;;
		-A | --archive) kind=none ;;
		--retry) kind=none ;;
		--retry-for) kind=none ;;
		--ca) kind=files ;;
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
complete -F _sc_catchup sc-catchup

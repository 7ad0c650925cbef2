# bash completion for sc-seal; made by: sc-seal --print-completion bash
# shellcheck shell=bash
_sc_seal() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local options='' verbs='' paths=0 kind='' words=''
	COMPREPLY=()
	if [[ $cur == '=' ]]; then
		cur=''
	elif [[ $prev == '=' ]]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	fi
		options='--force --target --age --compact --level --keep-local --keep-rows -A --archive --keep-archive --ship --take-over --jump --watch --interval -d --dry-run -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		--target) kind=none ;;
		--age) kind=words words='none' ;;
		--level) kind=none ;;
		--keep-local) kind=none ;;
		--keep-rows) kind=none ;;
		-A | --archive) kind=none ;;
		--keep-archive) kind=none ;;
		--jump) kind=none ;;
		--interval) kind=none ;;
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
complete -F _sc_seal sc-seal

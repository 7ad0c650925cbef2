# bash completion for sc-log; made by: sc-log --print-completion bash
# shellcheck shell=bash
_sc_log() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local options='' verbs='' paths=0 kind='' words=''
	COMPREPLY=()
	if [[ $cur == '=' ]]; then
		cur=''
	elif [[ $prev == '=' ]]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	local verb='' i
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		help) ;;
		-*) ;;
		*)
			verb=${COMP_WORDS[i]}
			break
			;;
		esac
	done
	case $verb in
	create)
		options='--schema --max-message --journal-size --force-network-fs -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		--schema) kind=files ;;
		--max-message) kind=none ;;
		--journal-size) kind=none ;;
		--options-file) kind=files ;;
		esac
		;;
	append)
		options='--source --mirror --pairs --bare --wrap --skip-bad --batch-rows --if-next --wait-space -q --quiet -v --verbose --json --options-file -h --help --version'
		paths=1
		case $prev in
		--source) kind=none ;;
		--skip-bad) kind=files ;;
		--batch-rows) kind=none ;;
		--if-next) kind=none ;;
		--options-file) kind=files ;;
		esac
		;;
	read)
		options='--from --to --since --until --last -n --count -f --follow --where -A --archive --payload --times -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		--from) kind=words words='earliest' ;;
		--to) kind=none ;;
		--since) kind=none ;;
		--until) kind=none ;;
		--last) kind=none ;;
		-n | --count) kind=none ;;
		--where) kind=none ;;
		-A | --archive) kind=none ;;
		--options-file) kind=files ;;
		esac
		;;
	info)
		options='-v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		--options-file) kind=files ;;
		esac
		;;
	verify)
		options='--from --to -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		--from) kind=words words='earliest' ;;
		--to) kind=none ;;
		--options-file) kind=files ;;
		esac
		;;
	trim)
		options='--before -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		--before) kind=none ;;
		--options-file) kind=files ;;
		esac
		;;
	migrate)
		options='--schema --dry-run -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		--schema) kind=files ;;
		--options-file) kind=files ;;
		esac
		;;
	source)
		options='-v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		--options-file) kind=files ;;
		esac
		;;
	restore)
		options='-A --archive --keep-local --partial --jump -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		-A | --archive) kind=none ;;
		--keep-local) kind=none ;;
		--jump) kind=none ;;
		--options-file) kind=files ;;
		esac
		;;
	reindex)
		options='-v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		--options-file) kind=files ;;
		esac
		;;
	*)
		options='-v --verbose -q --quiet --json --options-file -h --help --version'
		verbs='help create append read info verify trim migrate source restore reindex'
		case $prev in
		--options-file) kind=files ;;
		esac
		;;
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
complete -F _sc_log sc-log

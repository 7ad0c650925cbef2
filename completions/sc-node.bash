# bash completion for sc-node; made by: sc-node --print-completion bash
# shellcheck shell=bash
_sc_node() {
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
	pub)
		options='--reference --uid --window --strict --timeout --url --endpoint -T --token-file --ca --cert --key --server-name -k --insecure --proxy --connect-timeout --order --retry --max-message -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=0
		case $prev in
		--reference) kind=none ;;
		--uid) kind=none ;;
		--window) kind=none ;;
		--timeout) kind=words words='none' ;;
		--url) kind=none ;;
		--endpoint) kind=none ;;
		-T | --token-file) kind=files ;;
		--ca) kind=files ;;
		--cert) kind=files ;;
		--key) kind=files ;;
		--server-name) kind=none ;;
		--proxy) kind=none ;;
		--connect-timeout) kind=words words='none' ;;
		--order) kind=words words='document reference auto' ;;
		--max-message) kind=none ;;
		--options-file) kind=files ;;
		esac
		;;
	sub)
		options='--also --format --ack -e --exec --on-fail --strict -n --count -i --idle --timeout --keep --ready-fd --url --endpoint -T --token-file --ca --cert --key --server-name -k --insecure --proxy --connect-timeout --order --retry --max-message -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=0
		case $prev in
		--also) kind=none ;;
		--format) kind=words words='object array data' ;;
		--ack) kind=words words='auto exec manual none' ;;
		-e | --exec) kind=none ;;
		--on-fail) kind=none ;;
		-n | --count) kind=none ;;
		-i | --idle) kind=words words='none' ;;
		--timeout) kind=words words='none' ;;
		--ready-fd) kind=none ;;
		--url) kind=none ;;
		--endpoint) kind=none ;;
		-T | --token-file) kind=files ;;
		--ca) kind=files ;;
		--cert) kind=files ;;
		--key) kind=files ;;
		--server-name) kind=none ;;
		--proxy) kind=none ;;
		--connect-timeout) kind=words words='none' ;;
		--order) kind=words words='document reference auto' ;;
		--max-message) kind=none ;;
		--options-file) kind=files ;;
		esac
		;;
	node)
		options='--also --format --ack -e --exec --on-fail --window --strict --exit-on-eof -n --count -i --idle --timeout --keep --ready-fd --url --endpoint -T --token-file --ca --cert --key --server-name -k --insecure --proxy --connect-timeout --order --retry --max-message -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=0
		case $prev in
		--also) kind=none ;;
		--format) kind=words words='object array data' ;;
		--ack) kind=words words='auto exec manual none' ;;
		-e | --exec) kind=none ;;
		--on-fail) kind=none ;;
		--window) kind=none ;;
		-n | --count) kind=none ;;
		-i | --idle) kind=words words='none' ;;
		--timeout) kind=words words='none' ;;
		--ready-fd) kind=none ;;
		--url) kind=none ;;
		--endpoint) kind=none ;;
		-T | --token-file) kind=files ;;
		--ca) kind=files ;;
		--cert) kind=files ;;
		--key) kind=files ;;
		--server-name) kind=none ;;
		--proxy) kind=none ;;
		--connect-timeout) kind=words words='none' ;;
		--order) kind=words words='document reference auto' ;;
		--max-message) kind=none ;;
		--options-file) kind=files ;;
		esac
		;;
	request)
		options='--reference --replies --full --timeout --keep --url --endpoint -T --token-file --ca --cert --key --server-name -k --insecure --proxy --connect-timeout --order --retry --max-message -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=0
		case $prev in
		--reference) kind=none ;;
		--replies) kind=none ;;
		--timeout) kind=words words='none' ;;
		--url) kind=none ;;
		--endpoint) kind=none ;;
		-T | --token-file) kind=files ;;
		--ca) kind=files ;;
		--cert) kind=files ;;
		--key) kind=files ;;
		--server-name) kind=none ;;
		--proxy) kind=none ;;
		--connect-timeout) kind=words words='none' ;;
		--order) kind=words words='document reference auto' ;;
		--max-message) kind=none ;;
		--options-file) kind=files ;;
		esac
		;;
	reply)
		options='-r --raw --ack -n --count -i --idle --timeout --keep --ready-fd --url --endpoint -T --token-file --ca --cert --key --server-name -k --insecure --proxy --connect-timeout --order --retry --max-message -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=0
		case $prev in
		--ack) kind=words words='auto exec' ;;
		-n | --count) kind=none ;;
		-i | --idle) kind=words words='none' ;;
		--timeout) kind=words words='none' ;;
		--ready-fd) kind=none ;;
		--url) kind=none ;;
		--endpoint) kind=none ;;
		-T | --token-file) kind=files ;;
		--ca) kind=files ;;
		--cert) kind=files ;;
		--key) kind=files ;;
		--server-name) kind=none ;;
		--proxy) kind=none ;;
		--connect-timeout) kind=words words='none' ;;
		--order) kind=words words='document reference auto' ;;
		--max-message) kind=none ;;
		--options-file) kind=files ;;
		esac
		;;
	ctl)
		options='--timeout --url --endpoint -T --token-file --ca --cert --key --server-name -k --insecure --proxy --connect-timeout --order --retry --max-message -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=0
		case $prev in
		--timeout) kind=words words='none' ;;
		--url) kind=none ;;
		--endpoint) kind=none ;;
		-T | --token-file) kind=files ;;
		--ca) kind=files ;;
		--cert) kind=files ;;
		--key) kind=files ;;
		--server-name) kind=none ;;
		--proxy) kind=none ;;
		--connect-timeout) kind=words words='none' ;;
		--order) kind=words words='document reference auto' ;;
		--max-message) kind=none ;;
		--options-file) kind=files ;;
		esac
		;;
	*)
		options='-v --verbose -q --quiet --json --options-file -h --help --version'
		verbs='help pub sub node request reply ctl'
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
complete -F _sc_node sc-node

# bash completion for sc-streams; made by: sc-streams --print-completion bash
# shellcheck shell=bash
_sc_streams() {
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
	serve)
		options='-l --listen --ready-fd --prefix --cert --key --client-ca -T --token-file --cors --log --long-poll --sse --private-cache --trust-forwarded --subscriptions --webhook-ca --webhook-timeout --max-subscriptions --max-links --max-body --max-held --max-read --max-path --max-clients --max-per-address --head-timeout --idle-timeout --grace -v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		-l | --listen) kind=none ;;
		--ready-fd) kind=none ;;
		--prefix) kind=none ;;
		--cert) kind=files ;;
		--key) kind=files ;;
		--client-ca) kind=files ;;
		-T | --token-file) kind=files ;;
		--cors) kind=none ;;
		--log) kind=none ;;
		--long-poll) kind=none ;;
		--sse) kind=none ;;
		--webhook-ca) kind=files ;;
		--webhook-timeout) kind=none ;;
		--max-subscriptions) kind=none ;;
		--max-links) kind=none ;;
		--max-body) kind=none ;;
		--max-held) kind=none ;;
		--max-read) kind=none ;;
		--max-path) kind=none ;;
		--max-clients) kind=none ;;
		--max-per-address) kind=none ;;
		--head-timeout) kind=none ;;
		--idle-timeout) kind=none ;;
		--grace) kind=none ;;
		--options-file) kind=files ;;
		esac
		;;
	ls)
		options='-v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		--options-file) kind=files ;;
		esac
		;;
	trim)
		options='-v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		--options-file) kind=files ;;
		esac
		;;
	seal)
		options='-v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		--options-file) kind=files ;;
		esac
		;;
	verify)
		options='-v --verbose -q --quiet --json --options-file -h --help --version'
		paths=1
		case $prev in
		--options-file) kind=files ;;
		esac
		;;
	*)
		options='-l --listen --ready-fd --prefix --cert --key --client-ca -T --token-file --cors --log --long-poll --sse --private-cache --trust-forwarded --subscriptions --webhook-ca --webhook-timeout --max-subscriptions --max-links --max-body --max-held --max-read --max-path --max-clients --max-per-address --head-timeout --idle-timeout --grace -v --verbose -q --quiet --json --options-file -h --help --version'
		verbs='help serve ls trim seal verify'
		paths=1
		case $prev in
		-l | --listen) kind=none ;;
		--ready-fd) kind=none ;;
		--prefix) kind=none ;;
		--cert) kind=files ;;
		--key) kind=files ;;
		--client-ca) kind=files ;;
		-T | --token-file) kind=files ;;
		--cors) kind=none ;;
		--log) kind=none ;;
		--long-poll) kind=none ;;
		--sse) kind=none ;;
		--webhook-ca) kind=files ;;
		--webhook-timeout) kind=none ;;
		--max-subscriptions) kind=none ;;
		--max-links) kind=none ;;
		--max-body) kind=none ;;
		--max-held) kind=none ;;
		--max-read) kind=none ;;
		--max-path) kind=none ;;
		--max-clients) kind=none ;;
		--max-per-address) kind=none ;;
		--head-timeout) kind=none ;;
		--idle-timeout) kind=none ;;
		--grace) kind=none ;;
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
			if ((paths)); then
				compopt -o filenames 2>/dev/null
				mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
			fi
		elif ((paths)); then
			compopt -o filenames 2>/dev/null
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		fi
		;;
	esac
	return 0
}
complete -F _sc_streams sc-streams

#!/bin/sh
# Print the Debian packages of tests/packages.txt that this machine still wants, one a line: for `make deps`.
set -eu
cd "$(dirname "$0")"
while read -r package command; do
	case $package in '' | '#'*) continue ;; esac
	if [ -n "${command:-}" ] && command -v "$command" >/dev/null 2>&1; then
		continue
	fi
	printf '%s\n' "$package"
done <packages.txt

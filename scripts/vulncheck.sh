#!/usr/bin/env bash
# Searches the vulnerability database of Go for what each module calls. It passes only if
# all modules were checked.
#
#   scripts/vulncheck.sh FOLDER...    folders of modules
#
# GOVULNDB is the address of a copy of the database: https://HOST or file:///FOLDER.
set -uo pipefail
cd "$(dirname "$0")/.."
found= unchecked=
for module in "$@"; do
	echo "vulncheck: $module"
	go -C "$module" tool -modfile="$PWD/tools/go.mod" govulncheck ${GOVULNDB:+-db="$GOVULNDB"} ./... && continue
	if [ $? = 3 ]; then found+=" $module"; else unchecked+=" $module"; fi
done
[ -z "$found" ] || echo "vulncheck: vulnerabilities in$found: update what is named above"
[ -z "$unchecked" ] || echo "vulncheck: not checked: database unreachable, or the error above, for$unchecked. Run it where the database can be reached, or set GOVULNDB to a copy"
[ -z "$found$unchecked" ] && echo "vulncheck: no known vulnerability is called"

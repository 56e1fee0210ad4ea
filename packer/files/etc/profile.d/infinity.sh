# shellcheck shell=sh
# A shell that was left alone at its prompt for half an hour ends.
TMOUT=1800
readonly TMOUT
export TMOUT

# No core file of what it starts; limits.d says the same where a login goes through PAM.
# dash and bash, which read this, both know -c.
# shellcheck disable=SC3045
ulimit -c 0

# shellcheck shell=sh
# A shell that was left alone at its prompt for half an hour ends.
TMOUT=1800
readonly TMOUT
export TMOUT

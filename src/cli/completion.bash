# Completion of plimsoll in bash. Written by: plimsoll completion bash

# Columns: command (-: the program, =: keys of the job file), names (@: its arguments), kind of the values, name of the value,
# words that are values, meaning.
_plimsoll_table='@TABLE@'

# Sets kind and words of an option, of the arguments, or of a key.
_plimsoll_find() {  # COMMAND NAME
  local command names
  while IFS='|' read -r command names kind _ words _; do
    [[ $command == "$1" && " $names " == *" $2 "* ]] && return
  done <<<"$_plimsoll_table"
  kind="" words=""
}

# Prints the names of a command that match a pattern.
_plimsoll_names() {  # COMMAND PATTERN
  local command names name
  while IFS='|' read -r command names _; do
    [[ $command == "$1" ]] || continue
    for name in $names; do [[ $name == $2 ]] && printf '%s\n' "$name"; done
  done <<<"$_plimsoll_table"
}

# Prints the entries of a folder that begin with $1.
_plimsoll_files() { compgen -f -- "$1"; }
_plimsoll_folders() { compgen -d -- "$1"; }
_plimsoll_jobs() {
  compgen -f -X '!*.yaml' -- "$1"
  compgen -f -X '!*.yml' -- "$1"
  compgen -d -- "$1"
}

# Completes a value of an option, of the arguments, or of a key.
_plimsoll_value() {  # COMMAND NAME VALUE BEFORE-EACH-REPLY
  local kind words value=$3 before=$4 reply
  _plimsoll_find "$1" "$2"
  if [[ $kind == list && $value == *,* ]]; then
    before+=${value%,*},
    value=${value##*,}
  fi
  while IFS= read -r reply; do COMPREPLY+=("$before$reply"); done < <(
    compgen -W "$words" -- "$value"
    [[ $kind == @(files|folders|jobs) ]] && "_plimsoll_$kind" "$value"
  )
  [[ $kind == @(files|folders|jobs) ]] && compopt -o filenames 2>/dev/null
}

_plimsoll() {
  local -a line=()
  local piece joined="" current command=- previous="" job="" at before kind words
  # Bash splits words at "=": "memory_budget=2GiB" is three pieces. The words of the program are put together again.
  for ((at = 0; at <= COMP_CWORD; at++)); do
    piece=${COMP_WORDS[at]}
    if ((at > 0)) && [[ $joined || $piece == "="* ]]; then
      line[${#line[@]} - 1]+=$piece
    else
      line+=("$piece")
    fi
    [[ $piece == "=" ]] && joined=1 || joined=""
  done
  current=${line[${#line[@]} - 1]}
  for ((at = 1; at < ${#line[@]} - 1; at++)); do
    piece=${line[at]}
    if [[ $previous ]]; then
      previous=""
    elif [[ $piece == -*=* ]]; then
      :
    elif [[ $piece == -* ]]; then
      _plimsoll_find "$command" "$piece"
      [[ $kind ]] && previous=$piece
    elif [[ $command == - ]]; then
      command=$piece
    elif [[ $piece != *=* && $piece == *[!0-9]* ]]; then
      job=1
    fi
  done

  COMPREPLY=()
  _plimsoll_find "$command" @
  if [[ $previous ]]; then
    _plimsoll_value "$command" "$previous" "$current" ""
  elif [[ $current == *=* ]]; then
    before=${current%%=*}=
    [[ $COMP_WORDBREAKS == *"="* ]] && before=""
    [[ $current == -* ]] || command="="
    _plimsoll_value "$command" "${current%%=*}" "${current#*=}" "$before"
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$(_plimsoll_names "$command" '-*')" -- "$current"))
  elif [[ $command == - ]]; then
    COMPREPLY=($(compgen -W "$(_plimsoll_names - '[a-z]*')" -- "$current"))
  elif [[ $kind != jobs || -z $job ]]; then
    _plimsoll_value "$command" @ "$current" ""
  else
    COMPREPLY=($(compgen -S = -W "$(_plimsoll_names = '*')" -- "$current"))
    compopt -o nospace 2>/dev/null
  fi
}

complete -F _plimsoll plimsoll

#compdef plimsoll
# Completion of plimsoll in zsh. Written by: plimsoll completion zsh

# Columns: command (-: the program, =: keys of the job file), names (@: its arguments), kind of the values, name of the value,
# words that are values, meaning.
_plimsoll_table='@TABLE@'

# Offers the values of a kind.
_plimsoll_offer() {  # KIND WORD...
  local kind=$1
  shift
  case $kind in
    (list) _sequence compadd - $@ ;;
    (*) (($#)) && compadd -- $@ ;|
    (files) _files ;;
    (folders) _files -/ ;;
    (jobs) _files -g '*.(yaml|yml)' ;;
  esac
}

_plimsoll_overrides() {
  local row
  local -a field keys
  for row in ${(f)_plimsoll_table}; do
    field=("${(@s:|:)row}")
    [[ $field[1] == "=" ]] || continue
    if compset -P 1 "$field[2]="; then
      _plimsoll_offer "$field[3]" ${=field[5]}
      return
    fi
    keys+=("$field[2]:$field[6]")
  done
  [[ $PREFIX == *=* ]] || _describe -t keys 'key of the job file' keys -S =
}

# Sets arguments to what _arguments takes for a command.
_plimsoll_arguments() {  # COMMAND
  local row name value once meaning
  local -a field
  arguments=()
  for row in ${(f)_plimsoll_table}; do
    field=("${(@s:|:)row}")
    [[ $field[1] == $1 ]] || continue
    value=${field[3]:+":${field[4]//:/\\:}: _plimsoll_offer $field[3] $field[5]"}
    if [[ $field[3] == jobs ]]; then
      arguments+=("1$value" '*:override:_plimsoll_overrides')
    elif [[ $field[2] == @ ]]; then
      arguments+=("*$value")
    elif [[ $field[2] == -* ]]; then
      [[ $field[4] == *...* ]] && once='*' || once="($field[2])"
      meaning=${field[6]//(#m)[\]\[:\\]/\\$MATCH}
      for name in ${=field[2]}; do
        [[ $name == --* && -n $value ]] && name="$name="
        arguments+=("${once}${name}[${meaning}]${value}")
      done
    fi
  done
}

_plimsoll() {
  local curcontext=$curcontext state line ret=1 row
  local -a arguments commands field
  _plimsoll_arguments -
  _arguments -C $arguments '1: :->command' '*:: :->argument' && ret=0
  case $state in
    (command)
      for row in ${(f)_plimsoll_table}; do
        field=("${(@s:|:)row}")
        [[ $field[1] == - && $field[2] != -* ]] && commands+=("$field[2]:$field[6]")
      done
      _describe -t commands command commands && ret=0
      ;;
    (argument)
      _plimsoll_arguments $words[1]
      _arguments $arguments && ret=0
      ;;
  esac
  return ret
}

# Completion calls the file as a function. If the text is evaluated, it registers the function.
if [[ $funcstack[1] == _plimsoll ]]; then
  _plimsoll "$@"
else
  compdef _plimsoll plimsoll
fi

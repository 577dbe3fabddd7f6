# Completion of plimsoll in fish. Written by: plimsoll completion fish

# Columns: command (-: the program, =: keys of the job file), names (@: its arguments), kind of the values, name of the value,
# words that are values, meaning.
set -g __plimsoll_table (string split \n -- '@TABLE@')

function __plimsoll_overrides
    set -l token (commandline -ct)
    for row in (string match '=|*' -- $__plimsoll_table)
        set -l field (string split '|' -- $row)
        set -l key "$field[2]="
        if string match -q -- "$key*" $token
            test -z "$field[5]"; or printf "$key%s\n" (string split ' ' -- $field[5])
            if test "$field[3]" = files
                for file in (string replace -- $key '' $token)*
                    printf "$key%s\n" $file
                end
            end
        else if not string match -q '*=*' -- $token
            printf '%s\t%s\n' $key $field[6]
        end
    end
end

function __plimsoll_has_job
    string match -qr '\.ya?ml$' -- (commandline -opc)
end

complete -c plimsoll -f
for row in (string match -v '=|*' -- $__plimsoll_table)
    set -l field (string split '|' -- $row)
    set -l condition __fish_use_subcommand
    test "$field[1]" = -; or set condition "__fish_seen_subcommand_from $field[1]"
    set -l names
    for name in (string split ' ' -- $field[2])
        string match -q -- '--*' $name; and set -a names -l (string sub -s 3 -- $name); or set -a names -s (string sub -s 2 -- $name)
    end
    if test "$field[2]" = @
        set names
    else if not string match -q -- '-*' $field[2]
        set names -a $field[2]
    end
    set -l values
    switch "$field[3]"
        case any words
            set values -x -a "$field[5]"
        case list
            set values -x -a "(__fish_append , $field[5])"
        case files
            set values -r -F -a "$field[5]"
        case folders
            set values -x -a '(__fish_complete_directories)'
        case jobs
            complete -c plimsoll -n "$condition; and __plimsoll_has_job" -a '(__plimsoll_overrides)'
            set condition "$condition; and not __plimsoll_has_job"
            set values -k -a '(__fish_complete_suffix .yaml .yml)'
    end
    complete -c plimsoll -n $condition $names $values -d $field[6]
end

#!/usr/bin/env python3
"""Checks the words of the sources: comments begin with a subject or a verb, and words that the glossary retired stay away.

    scripts/check-words.py                checks include and src; one line if all is well
    scripts/check-words.py --count        prints the uses of each fragment, retired word and retired identifier; exits with 0
    scripts/check-words.py --root DIR     checks another tree

CONTRIBUTING.md ("Style") has the rules. The faults are:

  - a header whose first comment line opens with a fragment: "Of ...", "What ...", "Whether ..." (FRAGMENTS)
  - a doc comment (/// and ///<) whose first line does, unless ALLOWED has its text with a reason
  - a word of RETIRED_WORDS in a comment. Text in backticks or double quotes is a name or a message, not prose
  - a name of RETIRED_IDENTIFIERS as a whole word, in code, and in comments if it is of several words
    (CamelCase, with_underscores) or in backticks. String literals, JSON keys among them, are not checked

To retire a name or a word, add a line to its table.

Prints one line for each fault, FILE:LINE: WORD: write X instead, and exits with 1 if there is one.
"""
import argparse
import bisect
import collections
import fnmatch
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["include", "src"]
HEADERS = {".h", ".cuh"}
SOURCES = HEADERS | {".cpp", ".cu"}

# First words of clauses that are no sentence.
FRAGMENTS = set("of what that whether where as which how who whom whose whoever whatever whichever wherever so such those these "
                "than but nor because although".split())
FRAGMENT_REMEDY = 'a subject and a verb ("Declares ...", "Returns ...", "Number of ...")'
# Doc comments that may open with a fragment: their first line without the slashes, and the reason. Fewer than MAX_ALLOWED.
MAX_ALLOWED = 20
ALLOWED = {}

# WORD | what to write instead. WORD is a regular expression of whole words; a space also matches a hyphen or a line's end.
RETIRED_WORDS = r"""
beside                           | "next to", "in addition to", "compared with", "overlapping with" or "outside the arena"
elsewhere                        | "offloaded", "in host memory", "on disk" or the name of the place
anew                             | "again", or "recompute", "re-plan", "place again"
at once                          | "immediately", "at the same time" or "without offload"
side by side                     | "contiguous", "adjacent" or "next to each other"
(takes?|taken|taking|took) apart | "dequantize", "dequantized"
put into blocks                  | "quantized in blocks"
who(m|ever|mever)                | "the caller", or the op, buffer or thread
nobody|no one                    | "no op", "no caller"
somebody|someone                 | "another op", "another buffer", "another process"
everybody|everyone               | "all ops", "all ranks"
himself|herself                  | the name of the op, buffer or thread
hears? of                        | "receives", "is called for"
is told                          | "receives"
comes? and go(es)?               | "is copied in and out"
hardly                           | "rarely" with the number, or "at most"
likewise                         | the noun again
so many                          | "N" or the noun
a while                          | the time with its unit
in moments                       | the time with its unit
all else                         | "the rest"
but for                          | "except"
in the place of                  | "instead of"
in words                         | "as text"
for people                       | "human-readable"
as (the |an? )?\w+ has it        | "as in X", "in the format of X"
lies                             | "is", "is stored at", "is placed at"
wants?                           | "needs", "requests"
asks? for                        | "requests", "needs"
is wanted                        | "is needed"
lean(er|est)?                    | "low-precision", "minimum-memory", "less memory"
mend(s|ed|ing)?                  | "fix", "correct"
made up(?! of)                   | "fake"
twos|threes                      | "pairs", "triples"
made again|rebuilt               | "recomputed"
greatest                         | "largest", "maximum"
work(s|ed|ing)? out              | "compute"
notably                          | the bound with its unit
"""

# OLD NEW [@ PATH,...]: a name that was renamed, its new name or names, and the beginnings of the paths to which the row is
# confined (without them: all). "*" stands for any letters. Each row is a whole word.
RETIRED_IDENTIFIERS = """
Treatment                 FixedStrategy
treatment                 fixed_strategy @ src/plan
at_once                   without_offload @ src/plan
at_once_                  without_offload_
whole_ones                full_micro_batches
whole_                    keep_all_plan_ @ src/plan
whole_peak                keep_all_peak
leanest_of_all            min_memory_plan_of_all
leanest_searched          min_memory_plan_of_search
look_for_leaner           improve_min_memory_plan
leanest                   min_memory_plan|min_memory_solution|min_memory
blocks_are_leaner         block_checkpointing_needs_less_memory
leanest_with              min_memory_plan_with
leanest_by_value          min_memory_without_block_checkpointing
leanest_by_value_         min_memory_without_block_checkpointing_
least_by_value_           min_peak_without_block_checkpointing_
leanest_peak              min_peak
leanest_                  min_memory_plan_|min_memory_solutions_
leanest_of                min_memory_solution_of|min_memory_choice_of
Schedules                 ScheduleBuilder
schedules_                builder_
seconds_at_once           keep_all_step_seconds
seconds_at_once_          keep_all_step_seconds_
least_at_once             keep_all_peak_lower_bound
least_at_once_            keep_all_peak_lower_bound_
micro_at_once_            keep_all_micro_seconds_
update_at_once_           keep_all_update_seconds_
Arrangement               OffloadVariant
Arrangements              OffloadVariants
arrangement               variant
arrangements              variants
arrangements_             variants_
own_moving                own_offload_search
own_search                own_recompute_search
AwayCandidates            OffloadCandidates
AwayChoice                OffloadAssignment
Away                      OffloadCandidates
away                      combination|assignment|offloaded @ src/plan,src/train
try_part                  try_fraction
in_training               used_by_micro_batches
elsewhere                 offload_planner|off_device|used_outside|other_commands
elsewhere_                offload_planner_
parameters_elsewhere      parameters_offloaded
moved_bytes               offloaded_saved_bytes|relocated_bytes
moved_state_bytes         offloaded_state_bytes
moved_gradient_bytes      offloaded_gradient_bytes
moved_parameter_bytes     offloaded_parameter_bytes
movable                   offloadable
moves_any                 offloads_any
far                       offload_buffer|offload_memory @ include,src/plan,src/cost,src/trace,src/run
SegmentMoves              SegmentCopies
absence                   copies_out_first
plan_absence              plan_saved_value
plan_visits               plan_resident_uses
plan_mirrors              plan_host_operands
Mirror                    HostOperand
mirrors_                  host_operands_
mirrored_                 host_operand_of_
mirror                    host_operand
hosted_                   host_ops_
hosted_uses_              host_uses_
hosted_after              host_use_after
hosted                    host_uses
kHostedAhead              kHostOpsAhead
kOneVisit                 kMaxUseGap
away_since                offloaded_since
lay_out                   assign_offsets
RerunCost                 RecomputeCost
Rebuild                   RecomputePoint
rebuilds_of               recompute_points
Reruns                    RecomputeSequence
reruns_of                 recompute_sequence
reruns                    sequence
rebuilds                  points
rebuilds_                 recomputed_before_
rebuild                   point
Rebuilt                   Recomputed
rebuilt                   recomputed
rebuilt_by                recomputed_by
min_memory_by_value       min_memory_without_block_checkpointing
min_memory_by_value_      min_memory_without_block_checkpointing_
min_peak_by_value_        min_peak_without_block_checkpointing_
by_value                  without_block_checkpointing @ src/plan
keep_all_peak_bound       keep_all_peak_lower_bound
keep_all_peak_bound_      keep_all_peak_lower_bound_
update_seconds_saved      max_update_seconds_saved
overlap_seconds_saved     max_overlap_seconds_saved
build_as_recorded         build_without_choices
RegionCut                 RegionPartition
CutEvaluator              PartitionEvaluator
idle_before_              start_seconds_
has_stale_op_times        may_have_stale_op_times
serial_step_seconds_lower_bound step_seconds_lower_bound_without_overlap
blocks_need_less_memory   block_checkpointing_needs_less_memory
min_memory_per_value      min_memory_without_block_checkpointing
min_memory_per_value_     min_memory_without_block_checkpointing_
min_peak_per_value_       min_peak_without_block_checkpointing_
per_value                 without_block_checkpointing @ src/plan
min_copy_seconds          wait_seconds_lower_bound
unpinning_steps           open_choice_steps
UnpinnedChoices           OpenChoices
unpinned_choices_         open_choices_
unpinned_memory           memory_with_open_choices
try_unpinned              try_open_choices
unpinned_                 open_plan_ @ src/train
unpinned                  opens_choices @ src/train
unpinning                 opening_steps @ src/train
linear_wide               frozen_linear_wide
linear_half               frozen_linear_half
frozen_wide               frozen_other_wide
frozen_half               frozen_other_half
linear_layers             decoder_layers @ src/train
keep_all_fits             use_keep_all
without_own_budget        without_job_budget
try_without_own_budget    try_without_job_budget
search_under              plan_of_search
min_memory_plan_searched  min_memory_plan_of_search
choose_recomputation      plan_without_offload
recomputation_under       recompute_plan_within
written_again_            first_recompute_tick_
read_again_               last_reread_tick_
written_again             first_recompute_tick
read_again                last_reread_tick
RecomputeAnswer           RecomputeSolution
OffloadAnswer             OffloadSolution
drop_blocks               checkpoint_blocks
keep_everything           keep_all_solution
made_sound                make_feasible
least_limit               min_feasible_limit
cheapest_beside           cheapest_with_offload
least_seconds_in_turn     step_seconds_lower_bound_without_overlap
least_seconds_under       step_seconds_lower_bound_under
least_seconds             wait_seconds_lower_bound|step_seconds_lower_bound
recompute_bound           recompute_lower_bound
recompute_cost_bound      recompute_cost_lower_bound
thorough                  minimize_step_time @ include,src/plan,src/train,src/cli
step_of                   step_seconds @ src/plan
bare_cost                 skeleton_cost
bare_cost_                skeleton_cost_
given_bytes               mandatory_live_bytes
limit_under               transient_limit
weigh_regions             evaluate_regions
Weighed                   EvaluatedChoice
weighed                   evaluated
CutWeigher                PartitionEvaluator
weigh                     evaluate @ src/plan,src/train
micro_batches_to_weigh    candidate_micro_batches
RegionWeights             RegionCosts
ForwardStep               ForwardOp
initialise_late           sink_initialization
LateInitialisation        SinkInitialization
late_initialisation       sink_initialization
settle_updates            sink_updates
takes_norms_first         needs_norm_pass
Fusing                    FusionRules
fusing                    fusion_rules
fusing_                   fusion_rules_
fusing_of                 fusion_rules_of
fusing_reason             fusion_reason
norm_fusing               norm_fusion_rules
pointwise_fusing          pointwise_fusion_rules
Crossings                 LinkTransfers
crossings                 transfers
kManyOps                  kLargeTraceOps
most_model_bytes          peak_model_bytes
beside_bytes              other_thread_bytes
beside_bytes_             other_thread_bytes_
learn_beside              record_other_thread_bytes
outside_bytes             out_of_arena_bytes
outside_bytes_            out_of_arena_bytes_
outside_peak              out_of_arena_peak
outside_allocations       out_of_arena_allocations
taken_outside             add_out_of_arena
outside_now               out_of_arena_now
reset_outside_peak        reset_out_of_arena_peak
outside_high_             out_of_arena_peak_
LearnedWorkspace          MeasuredWorkspace
has_to_learn              has_new_workspace
with_learned              with_measured
learned                   found_more @ src/run
ByteMove                  Relocation
move_all                  relocate
move_on_host              relocate_on_host
move_by_copies            relocate_by_copies
scratch_of_moves          relocation_scratch_bytes
kMoveUnit                 kRelocationUnit
move_units                relocate_units
what_moves                buffers_to_relocate
move_from                 relocate_from
contradicted              invalidated|stale
contradict                invalidate @ src/run,src/train
contradicts               prediction_failed
contradict_times          invalidate_op_times
times_contradicted        may_have_stale_op_times
contradicted_times        prediction_notes
time_again                retime_stale_ops
ContradictedTimes         StaleOpTimes
AgreedTries               StableTiming
let_go                    evict|release_pages|release
take_arena                allocate_arena
take_host_arena           allocate_host_arena
take_other_arenas         allocate_other_arenas
Whose                     Owner
whose_                    owner_
StandInHostMemory         ScopedFakeHostMemory
host_memory_now           current_host_memory
MadeUpAllocator           FakeAllocator
MadeUpGuard               FakeGuard
MadeUpMachine             FakeTimedMachine
MadeUpUse                 FakeUse
add_made_up_device        add_fake_device
made_up_use               fake_use
made_up                   fake
LeanChoice                FormatChoice
lean_choices              format_choices
leaves_formats_open       has_open_formats
LeanChoices               FormatChoices
JobSettings               ResolvedSettings
pinned_job                resolved
pinned                    resolved|fixed|forced @ src/plan,src/train
pinned_reason             fixed_reason
slow_products             slow_matmul_note
tell_of_slow_products     note_slow_matmul
tell_of_missing_bfloat16  note_missing_bfloat16
bfloat16_products         bfloat16_matmul_speed
float16_products          float16_matmul_speed
ProductSpeed              MatmulThroughput
ProductSpeeds             MatmulThroughputs
product_speeds            matmul_throughputs
product_speed             matmul_throughput
relative_product_speed    relative_matmul_speed
LibraryProduct            LibraryMatmul
ProductScratch            MatmulScratch
ProductScratchFigure      MatmulScratchFigure
MostOfProducts            MaxMatmulScratch
measured_product_scratch  measured_matmul_scratch
product_scratch           matmul_scratch
product_scratch_within    matmul_scratch_within
product_scratch_bound     matmul_scratch_bound
estimated_product_scratch estimated_matmul_scratch
ProductEstimate           MatmulEstimate
kSlowProduct              kSlowMatmul
SlowProducts              SlowMatmul
smaller_target            replan_target
plan_again                replan
make_plan_anew            replan
batches_ahead_bytes       prefetched_batch_bytes
less_batches_ahead        minus_prefetched_batches
changes_that_fit          find_fitting_changes
change_of                 override_text
go_on                     should_continue|keep_choice
as_it_is                  base_plan|copy_target|is_plain_float
as_it_is_                 base_plan_
require_going_on          require_continue
AdviceLoad                PeakMemoryModel
load_of                   peak_memory_of
freed_load                memory_with_open_choices
price                     quality_cost @ src/train
kHostMemoryPrice          kHostMemoryCost
freeing_steps             open_choice_steps
Freeing                   OpenChoices
freest_                   open_plan_
try_freed                 try_open_choices
metrics_refused           metrics_write_failed
kCounted                  kSampleMask
asks_what_counts          uses_sample_mask
Wanted                    WeightSlot
wanted_by                 weight_slots
left_alone                is_ignored
number_meant              parse_informal_number
boolean_advice            suggest_boolean
type_advice               suggest_dtype
word_advice               suggest_word
keys_meant_by             suggest_keys
word_of_others            canonical_value
devices_word_of_others    canonical_distributed_value
take_types                infer_types
take_architecture         apply_architecture
DevicesAnswer             DistributedKeyReply
answer_of_devices         reply_to_distributed_key
aliases_of_devices        distributed_aliases
OtherBooleans             AliasBooleans
PrecisionClaim            PrecisionRequest
ClaimedPrecision          ResolvedPrecision
settled                   resolve_precision @ src/job
heeded                    applied
claim_of                  request_of
Slip                      YamlDiagnostic
find_slip                 diagnose_yaml
YamlSlips                 YamlDiagnostics
Shrink                    ReducibleKey
shrinks                   reducible_keys
complete_batch_sizes      resolve_batch_sizes
refuse_stray_words        reject_unexpected_arguments
words_for                 describe_parse_error
in_plain_words            describe_yaml_error
outlive_broken_pipes      ignore_sigpipe
explanation_of_misfit     peak_report
tell_plan_change          report_plan_change
taken_apart               dequantized
take_apart                dequantize_blocks
turn_rows                 transpose_rows
turn_pairs                transpose_pairs
store_turned              store_transposed
turn_rows_of              transpose_rows_of
turn_pairs_of             transpose_pairs_of
store_turned_of           store_transposed_of
pick_turn_rows_of         pick_transpose_rows_of
pick_store_turned_of      pick_store_transposed_of
side_by_side              inner_contiguous|adjacent
conv_side_by_side         conv_inner_contiguous
ssd_side_by_side          ssd_inner_contiguous
side_by_side_copy         inner_contiguous_copy
turn_bf16_pairs           transpose_bf16_pairs
turned_x                  transposed_x
turned_state              transposed_state
turned_b                  transposed_b
turned_pairs              transposed_pairs
take_turn                 run_pass
Shelves                   PlacedBoxes
hopeless_                 infeasible_
hopeless_height_          infeasible_height_
work_of_a_dive            work_per_descent
BlindCaptions             CaptionBaseline
what_it_is                describe_file_type
look_through_picture      validate_picture
take_folder               lock_folder
take_metrics              lock_metrics
ModelChange               ModelVariant
ModelChanges              ModelVariants
ModelChangesProgress      ModelVariantsProgress
model_changes             model_variants
forget_weight             release_weight
hold_weight_as            set_weight_dtype
rows_in_turn              rows_per_pass_of
least_open                min_open
most_open                 max_open
least_width               min_width_of
most_bytes                max_bytes
most_bytes_               max_bytes_
most_blocks               max_blocks
most_drawn                max_drawn
most_points               max_points
most_keys                 max_keys
most_keys_                max_keys_
most_tasks                max_tasks
most_step                 max_step
least_step                min_step
least_slack               min_slack
least_support             min_support
least_budget              agree_on_min_budget
first_least               first_minimum
Places                    KeyLocations @ src/job
places                    locations @ src/job
places_                   locations_ @ src/job
kMost*                    kMax*
kLeast*                   kMin*
kFewest*                  kMin*
kLongest*                 kMax*Length
kLargest*                 kMax*
kGreatest*                kMax*
kWidest*                  kMax*Width
kNarrowest*               kMin*Width
kHighest*                 kMax*
kDeepest*                 kMax*Depth
kShortest*                kMin*Length
kSmallest*                kMin*
*_in_words                describe_*
in_words                  describe_*
"""

TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|(?P<include>^[ \t]*#[ \t]*include[^\n]*)"
    r'|(?P<string>R"(?P<tag>[^(\s"]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\')',
    re.DOTALL | re.MULTILINE)
NAME = re.compile(r"[A-Za-z_]\w*")
SEVERAL_WORDS = re.compile(r"\w_\w|[a-z0-9][A-Z]")
NO_PROSE = re.compile(r'`[^`\n]*`|"[^"\n]*"')


class Word:
    """A row of RETIRED_WORDS."""

    def __init__(self, row):
        self.name, self.remedy = (part.strip() for part in row.split(" | "))
        self.regex = re.compile(r"(?<![\w-])(?:" + self.name.replace(" ", r"[\s-]+") + r")(?![\w(]|::)", re.IGNORECASE)


class Identifier:
    """A row of RETIRED_IDENTIFIERS."""

    def __init__(self, row):
        names, _, paths = row.partition("@")
        self.name, self.new = names.split()
        self.new = self.new.replace("|", " or ")
        self.paths = tuple(path.strip() for path in paths.split(",") if path.strip())

    def covers(self, file):
        return not self.paths or file.startswith(self.paths)


def rows_of(table):
    return [line for line in table.splitlines() if line.strip() and not line.startswith("#")]


class Block:
    """Comment lines that follow each other, as one text, so that a phrase may go over a line's end."""

    def __init__(self, kind, line, text):
        self.kind = kind  # "//", "///", "///<" or "/*"
        self.texts = [text]
        self.line = line  # of the first text

    def prose(self):
        """The text without names and messages; each of them becomes as many dots."""
        return NO_PROSE.sub(lambda found: "." * len(found[0]), "\n".join(self.texts))


class Source:
    """A file: its blocks of comments, its code without strings, and the faults of both."""

    def __init__(self, file, text):
        self.file, self.text = file, text
        self.ends = [found.start() for found in re.finditer("\n", text)]
        self.blocks = []
        code, at = [], 0
        for token in TOKEN.finditer(text):
            code.append(text[at:token.start()])
            code.append("\n" * token[0].count("\n") or " ")
            at = token.end()
            if token["comment"]:
                self.add_comment(text, token)
        self.code = "".join(code) + text[at:]

    def line_at(self, position):
        return bisect.bisect_left(self.ends, position) + 1

    def add_comment(self, text, token):
        line = self.line_at(token.start())
        kind = re.match(r"///<|///|//|/\*", token[0])[0]
        body = token[0][len(kind):]
        alone = not text[text.rfind("\n", 0, token.start()) + 1:token.start()].strip()
        last = self.blocks[-1] if self.blocks else None
        # A "///<" alone in its line goes on with the one above.
        if last and last.kind == kind != "/*" and alone and last.line + len(last.texts) == line:
            last.texts.append(body)
        else:
            self.blocks.append(Block(kind, line, body))

    def fragments(self):
        """(kind of comment, line, word, text) of each header and doc comment that opens with a fragment."""
        for block in self.blocks:
            is_first = block is self.blocks[0] and pathlib.PurePath(self.file).suffix in HEADERS
            opening = NAME.match(block.texts[0].lstrip())
            if not opening or opening[0].lower() not in FRAGMENTS:
                continue
            if is_first:
                yield "header", block.line, opening[0], block.texts[0].strip()
            elif block.kind in ("///", "///<"):
                yield "doc comment", block.line, opening[0], block.texts[0].strip()

    def words(self, words):
        """(line, text, Word) of each retired word in comments."""
        for block in self.blocks:
            prose = block.prose()
            for word in words:
                for found in word.regex.finditer(prose):
                    yield block.line + prose.count("\n", 0, found.start()), " ".join(found[0].split()), word

    def identifiers(self, identifiers):
        """(line, name, Identifier) of each retired name."""
        rows = [each for each in identifiers if each.covers(self.file)]
        known = {each.name: each for each in rows if "*" not in each.name}
        patterns = [each for each in rows if "*" in each.name]
        if patterns:
            any_pattern = re.compile("|".join(fnmatch.translate(each.name) for each in patterns))
            for name in filter(any_pattern.match, set(NAME.findall(self.text))):
                known.setdefault(name, next(each for each in patterns if fnmatch.fnmatchcase(name, each.name)))
        for number, line in enumerate(self.code.split("\n"), 1):
            for name in NAME.findall(line):
                if name in known:
                    yield number, name, known[name]
        for block in self.blocks:
            for offset, text in enumerate(block.texts):
                quoted = " ".join(re.findall(r"`[^`]*`", text))
                for found in NAME.finditer(NO_PROSE.sub("", text)):
                    if found[0] in known and SEVERAL_WORDS.search(found[0]):
                        yield block.line + offset, found[0], known[found[0]]
                for name in NAME.findall(quoted):
                    if name in known:
                        yield block.line + offset, name, known[name]


class Words:
    """The sources of a tree and their faults."""

    def __init__(self, root):
        self.words = [Word(row) for row in rows_of(RETIRED_WORDS)]
        self.identifiers = [Identifier(row) for row in rows_of(RETIRED_IDENTIFIERS)]
        self.sources = []
        for folder in FOLDERS:
            for path in sorted((root / folder).rglob("*")):
                if path.suffix in SOURCES and path.is_file():
                    file = path.relative_to(root).as_posix()
                    self.sources.append(Source(file, path.read_text(encoding="utf-8", errors="replace")))

    def faults(self):
        found, unused = [], set(ALLOWED)
        for source in self.sources:
            for kind, line, word, text in source.fragments():
                unused.discard(text)
                if kind == "header" or text not in ALLOWED:
                    found.append((source.file, line, word, FRAGMENT_REMEDY))
            found += [(source.file, line, text, word.remedy) for line, text, word in source.words(self.words)]
            found += [(source.file, line, name, each.new) for line, name, each in source.identifiers(self.identifiers)]
        lines = [f"{file}:{line}: {word}: write {remedy} instead" for file, line, word, remedy in sorted(found)]
        lines += [f"scripts/check-words.py:1: {text!r}: remove it from ALLOWED; no comment opens with it" for text in sorted(unused)]
        if len(ALLOWED) >= MAX_ALLOWED:
            lines.append(f"scripts/check-words.py:1: ALLOWED has {len(ALLOWED)} rows; allowed: fewer than {MAX_ALLOWED}")
        return lines

    def print_counts(self):
        kinds, openings, words, names = (collections.Counter() for _ in range(4))
        for source in self.sources:
            for kind, _, opening, text in source.fragments():
                kinds[kind] += 1
                kinds["allowed"] += kind == "doc comment" and text in ALLOWED
                openings[opening.capitalize()] += 1
            words.update(word.name for _, _, word in source.words(self.words))
            names.update(each.name for _, _, each in source.identifiers(self.identifiers))
        headers = sum(pathlib.PurePath(source.file).suffix in HEADERS for source in self.sources)
        doc_comments = sum(block.kind in ("///", "///<") for source in self.sources for block in source.blocks)
        print(f"{kinds['header']:6} of {headers} headers open with a fragment")
        print(f"{kinds['doc comment']:6} of {doc_comments} doc comments do, {kinds['allowed']} of them allowed")
        for opening, count in openings.most_common():
            print(f"{count:6}   {opening}")
        print(f"{words.total():6} uses of {len(self.words)} retired words in comments")
        for word in self.words:
            print(f"{words[word.name]:6}   {word.name}")
        print(f"{names.total():6} uses of {len(self.identifiers)} retired identifiers")
        for name, count in names.most_common():
            print(f"{count:6}   {name}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", action="store_true", help="print counts instead of faults")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, metavar="DIR",
                        help="the tree to check (default: this repository)")
    options = parser.parse_args(arguments)
    missing = [folder for folder in FOLDERS if not (options.root / folder).is_dir()]
    if missing:
        parser.error(f"--root: {options.root} has no folder {missing[0]}; use the root of the repository")
    words = Words(options.root)
    if options.count:
        words.print_counts()
        return 0
    faults = words.faults()
    for text in faults:
        print(text)
    count = {0: "no fault", 1: "1 fault"}.get(len(faults), f"{len(faults)} faults")
    print(f"words: {len(words.sources)} files, {count}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

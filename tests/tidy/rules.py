"""The demands of the tidy test, as tables. A row gives the rule's name, what it looks for, where, and
what to write instead. Single exceptions, each with its reason, stand in exceptions.txt."""

import re

PRODUCT = ("sim", "backends", "strategies", "scenarios", "reports")
EVERYTHING = PRODUCT + ("tests",)

EXPERIMENT_SEES = ("sim/kernel", "sim/hardware", "sim/hardware/flows", "backends", "strategies", "scenarios", "reports")
RUN_SEES = EXPERIMENT_SEES + ("sim/harness", "sim/experiment")
VERBS_SEE = RUN_SEES + ("sim/run", "sim/console")
VERB_ROOMS = ("sim/real", "sim/explore", "sim/sweep", "sim/diff", "sim/collective", "sim/accuracy", "sim/search",
              "sim/programs", "sim/remote", "sim/export", "sim/question", "sim/serve")

# An error code belongs to one of these; what stands above an experiment counts as the command.
CODES_OF_THE_COMMAND = VERB_ROOMS + ("sim/run", "sim/verify", "sim/console", "sim/command")

# Each layer may include itself and the layers named. The longest matching prefix decides.
LAYERS = {
    "sim/kernel": (),
    "sim/hardware/flows": ("sim/kernel",),
    "sim/hardware": ("sim/kernel", "sim/hardware/flows"),
    "backends": ("sim/kernel", "sim/hardware"),
    "strategies": ("sim/kernel", "sim/hardware", "backends"),
    "sim/harness": ("sim/kernel", "sim/hardware", "backends", "strategies"),
    "scenarios": ("sim/kernel", "sim/hardware", "backends", "strategies"),
    "reports": ("sim/kernel",),
    "sim/experiment": EXPERIMENT_SEES,
    "sim/verify": RUN_SEES,
    "sim/run": RUN_SEES + ("sim/verify",),
    "sim/console": ("sim/kernel", "scenarios", "reports"),
    "sim/real": VERBS_SEE,
    "sim/explore": VERBS_SEE,
    "sim/sweep": VERBS_SEE,
    "sim/diff": VERBS_SEE,
    "sim/collective": VERBS_SEE + ("sim/real",),
    "sim/accuracy": VERBS_SEE + ("sim/collective",),
    "sim/search": VERBS_SEE + ("sim/collective",),
    "sim/question": VERBS_SEE + ("sim/search",),
    "sim/serve": VERBS_SEE + ("sim/search",),
    "sim/programs": RUN_SEES + ("sim/run",),
    "sim/remote": RUN_SEES + ("sim/programs",),
    "sim/export": VERBS_SEE + ("sim/collective", "sim/programs"),
    "sim/command": VERBS_SEE + VERB_ROOMS,
    "tests": VERBS_SEE + VERB_ROOMS + ("sim/verify", "sim/command"),
}

# Reports are written from the plain result and the plain trace; of the kernel they may know only
# these basics.
REPORTS_MAY_INCLUDE = ("sim/kernel/diagnosis.hpp", "sim/kernel/error.hpp", "sim/kernel/memory_ledger.hpp", "sim/kernel/metric_rows.hpp",
                       "sim/kernel/metric_table.hpp", "sim/kernel/time.hpp",
                       "sim/kernel/trace.hpp", "sim/kernel/text.hpp", "sim/kernel/version.hpp")

# A strategy never learns on which backend it runs, so only the interfaces are open to these.
BLIND_TO_BACKENDS = ("strategies", "scenarios")

MAX_LINES = 400
MAX_HEADER_LINES = 200
MAX_MAIN_LINES = 60

# Kinds of files that people read, and what a merge leaves in them.
TEXTS = (".md", ".hpp", ".cpp", ".py", ".sh", ".json", "meson.build")
CONFLICT = re.compile(r"(<{7}|>{7}) ")

# Where virtual time and one order of events rule.
SIMULATED = ("sim/kernel", "sim/hardware", "backends/fiber", "strategies")
# Libraries return values and errors; only the command talks to the terminal and ends the process.
LIBRARIES = ("sim/kernel", "sim/hardware", "backends", "strategies", "scenarios", "reports")
# Where prices are made.
PRICES = ("sim/kernel", "sim/hardware", "backends")


class Ban:
    """A pattern that must not occur in the code below some folders."""

    def __init__(self, name, pattern, folders, instead, *, in_comments=False):
        self.name = name
        self.pattern = re.compile(pattern)
        self.folders = folders
        self.instead = instead
        self.in_comments = in_comments


BANS = (
    Ban("wall-clock",
        r"\b(steady_clock|system_clock|high_resolution_clock|gettimeofday|clock_gettime)\b"
        r"|\bstd::time\s*\(|\b__rdtsc\b",
        PRODUCT, "virtual time (sim/kernel/time.hpp)"),
    Ban("unseeded-random",
        r"\b(srand|rand|drand48|random_device|mt19937(_64)?|default_random_engine|minstd_rand0?)\b"
        r"|\b\w+_distribution\s*<",
        EVERYTHING, "the counter-based numbers of sim/kernel/random.hpp; in tests, RapidCheck"),
    Ban("real-sleep", r"\b(sleep_for|sleep_until|usleep|nanosleep)\b",
        EVERYTHING, "advancing the rank's own clock: nothing waits in real time"),
    Ban("timed-wait", r"\b(wait_for|wait_until|try_lock_for|try_lock_until)\b",
        PRODUCT, "Work::wait(); Boost.Fiber's timed waits read the wall clock"),
    Ban("lock",
        r"\bstd::(recursive_|timed_|shared_|recursive_timed_)?mutex\b"
        r"|\bstd::(lock_guard|unique_lock|scoped_lock|condition_variable|jthread|thread|async)\b",
        ("sim",) + SIMULATED, "nothing: ranks are fibers of one thread, and switch only in wait()"),
    Ban("unordered", r"\bunordered_(multi)?(map|set)\b",
        ("sim",) + SIMULATED, "std::map, or a sorted vector: the order must not depend on hashing"),
    Ban("pointer-key", r"\b(map|set)\s*<\s*(const\s+)?[\w:]+(\s+const)?\s*\*",
        ("sim",) + SIMULATED, "a rank, index or name as the key: addresses differ from run to run"),
    Ban("std-hash", r"\bstd::(hash\s*<|type_index\b)|\bhash_value\s*\(|\btypeid\b",
        ("sim",) + SIMULATED, "sim/kernel/hash.hpp: standard hashes differ between libraries"),
    Ban("long-double", r"\blong\s+double\b",
        EVERYTHING, "double: the width of long double differs between machines"),
    Ban("libm-in-prices",
        r"\bstd::(pow|exp2?|expm1|log(2|10|1p)?|a?sinh?|a?cosh?|a?tanh?|atan2|cbrt|hypot|erfc?"
        r"|[lt]gamma|fma)\s*\(",
        PRICES, "integers, + - * / and std::sqrt, which every machine rounds alike"),
    Ban("data-or-shapes", r"\bhas_data\b",
        ("strategies",), "the doors of backends/runtime.hpp (compute, off_the_clock, read_scalar): "
        "a strategy that knows whether there is data would plan something else than it trains"),
    Ban("build-date", r"\b__(DATE|TIME|TIMESTAMP)__\b",
        EVERYTHING, "version() of sim/kernel/version.hpp"),
    Ban("source-location", r"\bsource_location\b",
        EVERYTHING, "sim/kernel/call_site.hpp: Clang 14 has no std::source_location"),
    Ban("terminal",
        r"\bstd::(cout|cerr|clog)\b|(?<![\w.:>])(?:std::)?(v?f?printf|f?puts|putchar|perror)\s*\(",
        LIBRARIES, "returning the text, or an std::ostream& parameter"),
    Ban("process-end", r"(?<![\w.:>])(?:std::)?(quick_exit|_?exit|_Exit|abort)\s*\(",
        LIBRARIES, "throwing an Error (sim/kernel/error.hpp): a run ends with a verdict"),
    Ban("file-writer",
        r"\bstd::w?o?fstream\b|\b(fopen|freopen|fdopen|creat|mkstemp|mkostemp|tmpfile|copy_file)\s*\("
        r"|\bO_(WRONLY|RDWR|CREAT)\b|\b(fs|filesystem)::rename\b|(?<!\w)::rename(at2?)?\s*\(",
        PRODUCT, "write_whole_file (sim/console/whole_file.hpp): no half files, and no links followed"),
    Ban("using-namespace", r"\busing\s+namespace\b",
        PRODUCT, "the names one by one"),
    Ban("unfinished", r"\b(TODO|FIXME|XXX|HACK)\b",
        EVERYTHING, "finishing it, or an issue", in_comments=True),
)


# A comment's sentence opens with its subject, not with "Of a rank ...", "Who reads ..." or "What a rank
# keeps ..." (a question may). How many still do, by folder: the numbers only fall.
OPENING = re.compile(r"(?:^//[/!]?<?\s+|[.:;]\s)((?:Of|Who|What)\s(?![^.\n]*\?)[^\n]{0,30})")
OPENINGS_LEFT = {"sim": 0, "backends": 0, "strategies": 0, "scenarios": 0, "reports": 0, "tests": 0}


class NameRule:
    """Names that a table gives to things. Elsewhere in the product no string says them: code asks the
    row, so that one line decides what a thing is called. Where each row has an enumerator, too, only the
    table and the files of `declared_in` name it, nor does anybody else match `asks`."""

    def __init__(self, name, table, row, what, instead, *, plain_words=(), words_alone=(), enumeration=None,
                 asks=None, declared_in=()):
        self.name = name
        self.table = table
        self.row = re.compile(row)
        self.what = what
        self.instead = instead
        # Names that are words of the language, too: they would be found everywhere.
        self.plain_words = plain_words
        # Such words, too, but where one is a whole string it is the name.
        self.words_alone = words_alone
        self.enumerators = enumeration and re.compile(
            rf"\b{enumeration}::\w+|\busing\s+(?:enum\s+|\w+\s*=\s*)(?:\w+::)*{enumeration}\b"
            + (f"|{asks}" if asks else ""))
        self.declared_in = declared_in

    def names_in(self, text):
        return [name for name in self.row.findall(text) if name not in self.plain_words]

    def pattern(self, text):
        """Where one of the table's names stands as a word, and not within a file's name."""
        names = "|".join(re.escape(name) for name in self.names_in(text) if name not in self.words_alone)
        alone = "|".join(self.words_alone) or "(?!)"
        return re.compile(rf"(?<![\w.-])(?:{names})(?!\w|[.-]\w)|(?<=^\")(?:{alone})(?=\"$)")


NAME_RULES = (
    NameRule("schedule-name", "strategies/pipeline/schedule_table.cpp", r'\.name = "([^"]+)"',
             "a schedule", "a question that ScheduleRow answers (strategies/pipeline/schedule_row.hpp)"),
    NameRule("optimizer-name", "strategies/optimizer/rules.cpp", r'\.name = "([^"]+)"',
             "an optimizer", "a question that OptimizerRule answers (strategies/optimizer/rules.hpp)",
             words_alone=("momentum",)),
    # "int8" is a data type's spelling, too, in every table of types.
    NameRule("compressor-name", "strategies/gradient_sync/compressors.cpp", r'\.name = "([^"]+)"',
             "a compressor", "a question that CompressorRow answers (strategies/gradient_sync/compressors.hpp)",
             words_alone=("int8",)),
    # A form's name in Megatron-LM counts, too. Rings and gathers are algorithms and collectives as well.
    NameRule("attention-name", "strategies/sharding/context_table.cpp", r'\.(?:name|megatron) = "([^"]+)"',
             "a form of attention over a context",
             "a question that ContextAttentionRow answers (strategies/model/context_attention.hpp)",
             words_alone=("ring", "all_gather"), enumeration="ContextAttention",
             declared_in=("strategies/model/context_attention.hpp",)),
    # "file" is an ordinary word, and so is "ranks" below.
    NameRule("routing-name", "strategies/model/routing.cpp", r'\.name = "([^"]+)"',
             "a kind of routing", "a question that RoutingRow answers (strategies/model/routing.hpp)",
             plain_words=("file",), words_alone=("learned", "uniform"), enumeration="RoutingKind",
             declared_in=("strategies/model/routing.hpp",)),
    # Code may name a row's constant to call or price a kind, but not to ask which kind it has.
    NameRule("collective-name", "sim/hardware/collective_rows.hpp", r'\{CollectiveKind::\w+,\s*"([^"]+)"',
             "a kind of collective",
             "what CollectiveRow answers, or a call of its constant, as collective::kAllReduce "
             "(sim/hardware/collective_rows.hpp)",
             words_alone=("broadcast", "reduce", "gather", "scatter", "barrier", "split"),
             enumeration="CollectiveKind",
             asks=r"[!=]=\s*&?\s*collective::k\w+|\bcase\s+collective::k\w+|\bcollective::k\w+\s*[!=]=|\bTestedOperation::(?!sendrecv\b)\w+"),
    NameRule("software-name", "sim/hardware/software.cpp", r'\.name = "([^"]+)"',
             "a training framework's software", "a member of Software (sim/hardware/software.hpp)"),
    NameRule("metric-name", "sim/kernel/metric_rows.hpp",
             r'\bROW\(\w+, \w+, \w+, "[^"]*",[\s\\]*"([^"]+)"', "a metric",
             "the row's constant, as metric::kMfu (sim/kernel/metric_rows.hpp)", plain_words=("ranks",)),
)

# Test programs that are run whole, whatever their files are called.
OWN_TEST_PROGRAMS = ("tests/mpi/mpi_definitions.cpp",)

# Functions that may take a Scenario outside of scenarios and sim/experiment: they make, change or
# compile one, or write it down field by field. All others take an Experiment, or what they need of
# it. A row that is no longer true fails the test, so the list only shrinks.
SCENARIO_OWNERS = ("scenarios", "sim/experiment", "tests")
SCENARIO_TAKERS = {
    "sim/run/run": ("run_scenario",),
    "sim/command/command_export": ("check_paths",),
    "sim/export/program_chakra": ("chakra_of_programs",),
    "sim/export/recorded_run": ("RecordedRun", "record_run", "traced_everywhere"),
    "sim/serve/guarded_scenario": ("refuse_long_programs", "refuse_what_is_no_plan"),
    "sim/sweep/run_sweep": ("key_of",),
    "sim/explore/explore_run": ("accept", "follow_with_batch", "follow_with_system", "smaller_values",
                                "stage_layers_of", "with_axis", "with_batch", "with_size"),
    "sim/explore/scenario_explorer": ("name_in_token", "without_buffered_sends"),
}


class LibraryRule:
    """Headers that only the files named may include; a name may be a pattern."""

    def __init__(self, name, pattern, allowed, instead):
        self.name = name
        self.pattern = re.compile(pattern)
        self.allowed = re.compile("|".join(f"^{path}$" for path in allowed))
        self.instead = instead


LIBRARY_RULES = (
    LibraryRule("json-include", r"^nlohmann/",
                (r"backends/probe\.cpp", r"sim/run/decision_file\.cpp",
                 r"sim/real/rank_report\.cpp", r"sim/collective/collective_table\.cpp",
                 r"sim/accuracy/(validation_json|read_kernel_trace)\.cpp",
                 r"sim/command/(command_explain|gpu_facts|preset_table)\.cpp",
                 r"sim/programs/(program_rows\.hpp|replay_report\.cpp)", r"sim/remote/torch_verify\.cpp", r"scenarios/formats/import\.cpp",
                 r"sim/search/((layout_json|training_figures)\.(cpp|hpp)|search_files\.cpp)", r"sim/question/answer_files\.cpp", r"sim/serve/(answer|plan_stream)\.cpp", r"sim/sweep/point_row\.cpp",
                 r"sim/diff/(read_side|profiler_trace|diff_json)\.cpp",
                 r"scenarios/describe\.cpp", r"scenarios/scenario_error\.cpp", r"reports/html/detail_json\.cpp",
                 r"reports/(json_writer|sensitivity)\.cpp",
                 r"strategies/checkpoint/manifest\.cpp", r"backends/rendezvous/message_codec\.cpp",
                 r"tests/.*\.cpp"),
                "a plain struct; the few .cpp files that speak JSON are named in tests/tidy/rules.py"),
    LibraryRule("derive-include", r"^sim/experiment/derive\.hpp$",
                (r"sim/experiment/.*\.(cpp|hpp)", r"tests/.*\.(cpp|hpp)"),
                "an Experiment: objects are made of a scenario's fields in sim/experiment alone"),
    LibraryRule("cli-include", r"^CLI/", (r"sim/command/.*\.cpp",),
                "a plain struct with the parsed options"),
    LibraryRule("boost-include", r"^boost/", (r"sim/kernel/.*\.cpp",
                                           r"backends/rendezvous/rendezvous_(server|line)\.cpp",
                                           r"sim/console/parallel\.cpp",
                                           r"sim/serve/http_(server|connection)\.cpp",
                                           r"sim/run/draws/factor_quantile\.cpp",
                                           r"tests/flows/rational_flows_test\.cpp"),
                "the kernel's own types; fibers are its secret, and sockets that of the rendezvous"),
)

#include "sim/programs/import_torch.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "strategies/optimizer/rules.hpp"

#include "sim/programs/rank_records.hpp"
#include "sim/programs/recognised_layout.hpp"
#include "sim/programs/trace_files.hpp"

namespace shardsim {

namespace {

ProgramSet read_set(const std::vector<std::string>& paths) {
  const std::vector<TraceFile> files = read_trace_files(paths);
  if (looks_like_record(files.front().bytes)) return merge_records(files);
  if (files.size() == 1 && looks_like_program_file(files.front().bytes)) {
    return read_program_file(files.front().bytes, files.front().path);
  }
  throw bad_program(files.front().path, "it is no record of a rank",
                    "give the folder that python3 -m shardsim.torch.record has written");
}

ForeignValue seen(const char* what, std::int64_t number) { return {what, std::to_string(number)}; }

// Where one rank has all parameters, its gradients tell how many tables of the vocabulary there
// are.
void write_tie(const RecognisedBlock& block, const RecognisedLayout& layout, Import& import) {
  if (layout.num_reduced == 0 || layout.tp > 1 || layout.pp > 1) {
    return import.assume("tied embeddings", "model.tied_embeddings", false,
                         "kernels do not tell whether the head is the embedding");
  }
  const std::int64_t columns =
      2 * (block.heads + block.groups) * block.head_size + (block.is_gated ? 3 : 2) * block.ffn;
  const std::int64_t others = layout.num_reduced - layout.num_layers() * columns * block.hidden;
  const bool is_tied = 2 * others < 3 * layout.vocabulary * block.hidden;
  import.derive(seen("elements of gradients", layout.num_reduced), "model.tied_embeddings", is_tied,
                is_tied ? "one table of the vocabulary" : "two tables of the vocabulary");
}

void write_model(const RecognisedBlock& block, const RecognisedLayout& layout, Import& import) {
  import.derive({"feed-forward", block.is_gated ? "two products, joined" : "one product"},
                "model.family", std::string(block.is_gated ? "llama" : "gpt2"));
  import.derive(seen("blocks of all stages", layout.num_layers()), "model.num_layers",
                layout.num_layers());
  import.derive(seen("columns into attention", block.hidden), "model.hidden_size", block.hidden);
  import.derive(seen("columns inside", block.ffn), "model.ffn_hidden_size", block.ffn * layout.tp,
                layout.tp > 1 ? "of all tensor-parallel ranks" : "");
  import.derive(seen("heads", block.heads), "model.num_attention_heads", block.heads * layout.tp);
  if (block.groups != block.heads) {
    import.derive(seen("heads of keys", block.groups), "model.num_query_groups",
                  block.groups * layout.tp);
  }
  if (block.heads * block.head_size * layout.tp != block.hidden) {
    import.derive(seen("elements of a head", block.head_size), "model.head_dim", block.head_size);
  }
  import.derive(seen("columns of logits", layout.vocabulary), "model.vocab_size",
                layout.vocabulary);
  import.derive(seen("keys of attention", block.seq_len), "model.seq_len", block.seq_len);
  write_tie(block, layout, import);
}

std::string strategy_words(const RecognisedLayout& layout) {
  std::string words;
  if (layout.dp_shard * layout.dp_replicate == 1) {
    words = "no data parallelism";
  } else if (layout.zero_stage == 0) {
    words = fmt::format("DDP over {}", layout.dp_shard);
  } else {
    words = fmt::format("{} over {}", layout.zero_stage == 3 ? "FSDP" : "ZeRO-1", layout.dp_shard);
    if (layout.dp_replicate > 1) words += fmt::format(" of {} replicas", layout.dp_replicate);
  }
  if (layout.tp > 1) {
    words += fmt::format(", tp {}{}", layout.tp,
                         layout.sequence_parallel ? " with sequence parallelism" : "");
  }
  if (layout.pp > 1) words += fmt::format(", pp {} x {}", layout.pp, layout.vpp);
  return words;
}

void write_pipeline(const RecognisedLayout& layout, Import& import) {
  import.derive(seen("ranks that messages reach", layout.pp), "parallelism.pp",
                std::int64_t{layout.pp});
  if (layout.vpp > 1) {
    import.derive(seen("stages of a rank", layout.vpp), "parallelism.vpp",
                  std::int64_t{layout.vpp});
  }
  const bool is_even =
      std::ranges::adjacent_find(layout.layers, std::not_equal_to<>()) == layout.layers.end();
  if (!is_even && layout.vpp == 1) {
    import.derive({"blocks of each stage", ""}, "parallelism.stage_layers", layout.layers);
  } else if (!is_even) {
    import.warn({"blocks of each rank", ""}, "they differ: give parallelism.stage_layers");
  }
  if (layout.schedule.empty()) {
    import.warn({"order of forwards and backwards", ""},
                "it is that of no schedule here: give parallelism.schedule_file, as PyTorch's "
                "pipelining writes it; the default stands in for it");
  } else {
    import.derive({"order of forwards and backwards", ""}, "parallelism.schedule", layout.schedule);
  }
}

void write_layout(const RecognisedLayout& layout, Import& import) {
  if (layout.tp > 1) {
    import.derive(seen("ranks that share activations", layout.tp), "parallelism.tp",
                  std::int64_t{layout.tp});
    import.derive({"activations between", layout.sequence_parallel ? "in parts" : "whole"},
                  "parallelism.sequence_parallel", layout.sequence_parallel);
    if (layout.tp_is_outside_dp) {
      import.derive({"neighbours", "data-parallel"}, "parallelism.rank_order",
                    std::string("dp-tp-pp"));
    }
  }
  if (layout.pp > 1) write_pipeline(layout, import);
  import.derive({"gradients", strategy_words(layout)}, "parallelism.zero_stage",
                std::int64_t{layout.zero_stage},
                layout.zero_stage == 1 ? "stages 1 and 2 gather alike: look at it" : "");
  import.derive(seen("ranks of the group", layout.dp_shard), "parallelism.dp_shard",
                std::int64_t{layout.dp_shard});
  if (layout.dp_replicate > 1) {
    import.derive(seen("replicas", layout.dp_replicate), "parallelism.dp_replicate",
                  std::int64_t{layout.dp_replicate});
  }
  if (layout.zero_stage == 3) {
    import.derive({"gathers of a block", layout.reshards ? "two" : "one"},
                  "parallelism.reshard_after_forward", layout.reshards);
    if (layout.microbatches > 1) {
      import.derive({"reductions of a block", ""}, "parallelism.sync_every_microbatch",
                    layout.reduces_every_microbatch);
    }
  }
}

// PyTorch's fused optimizers say their names; others are many small kernels.
void write_optimizer(const StepFacts& facts, Import& import) {
  constexpr std::string_view kFused = "_fused_";
  for (const std::string& name : facts.operations) {
    if (!name.starts_with(kFused)) continue;
    const std::string theirs = name.substr(kFused.size());
    for (const OptimizerRule& rule : optimizer_rules()) {
      if (rule.name == theirs) {
        return import.derive({"optimizer", name}, "training.optimizer", theirs);
      }
    }
  }
  import.assume("the optimizer", "training.optimizer", std::string(default_optimizer()),
                "no kernel says which it is");
}

void write_training(const StepFacts& facts, const RecognisedBlock& block,
                    const RecognisedLayout& layout, Import& import) {
  const std::int64_t samples = block.tokens / block.seq_len;
  const std::int64_t data = std::int64_t{layout.dp_shard} * layout.dp_replicate;
  import.derive(seen("tokens of a microbatch", block.tokens), "training.micro_batch_size", samples);
  import.derive(seen("microbatches", layout.microbatches), "training.global_batch_size",
                samples * layout.microbatches * data);
  const std::string precision(name_of(*facts.product_dtype));
  import.derive({"products in", precision}, "training.precision", precision);
  if (layout.reduced) {
    const std::string reduced(name_of(*layout.reduced));
    import.derive({"gradients in", reduced}, "training.grad_reduce_dtype", reduced);
  }
  if (layout.recomputes) {
    import.derive({"attention forward", "twice"}, "training.recompute", std::string("full"));
  }
  if (layout.clips) {
    import.assume("the largest norm of gradients", "training.max_grad_norm", 1.0,
                  "norms are computed; the limit is in no kernel");
  }
  write_optimizer(facts, import);
}

}  // namespace

void import_torch(const ImportRequest& request, Import& import) {
  const ProgramSet set = read_set(request.files);
  const StepFacts facts = step_facts_of(set, 0);
  const RecognisedBlock block = recognise_block(facts);
  const RecognisedLayout layout = recognise_layout(set, facts, block);
  import_system(request, {static_cast<std::int64_t>(set.programs.of_rank.size()), "recorded ranks"},
                import);
  write_model(block, layout, import);
  write_layout(layout, import);
  write_training(facts, block, layout, import);
}

}  // namespace shardsim

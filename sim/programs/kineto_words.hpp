#pragma once

#include <array>
#include <string_view>

#include "sim/kernel/dtype.hpp"

#include "sim/hardware/collective_rows.hpp"

// How PyTorch's profiler calls communication: the fields of record_param_comms (pytorch,
// torch/csrc/profiler/util.cpp and torch/csrc/distributed/c10d). Both directions use them.
namespace shardsim {

/// A kernel is that which NCCL's own build names: one per collective and type, whatever algorithm
/// and protocol run in it.
struct KinetoCollective {
  std::string_view name;
  std::string_view c10d;
  std::string_view kernel;
  bool reduces;
};

/// The first row of a name is written; all are read.
inline constexpr std::array kKinetoCollectives = {
    KinetoCollective{collective::kAllReduce.name, "allreduce", "AllReduce", true},
    KinetoCollective{collective::kReduce.name, "reduce", "Reduce", true},
    KinetoCollective{collective::kReduceScatter.name, "_reduce_scatter_base", "ReduceScatter",
                     true},
    KinetoCollective{collective::kAllGather.name, "_allgather_base", "AllGather", false},
    KinetoCollective{collective::kBroadcast.name, "broadcast", "Broadcast", false},
    KinetoCollective{collective::kAllToAll.name, "all_to_allv", "SendRecv", false},
    KinetoCollective{collective::kGather.name, "gather", "SendRecv", false},
    KinetoCollective{collective::kScatter.name, "scatter", "SendRecv", false},
    KinetoCollective{"send", "send", "SendRecv", false},
    KinetoCollective{"recv", "recv", "SendRecv", false},
    KinetoCollective{"batch", "coalesced", "SendRecv", false},
    // PyTorch's barrier is an all_reduce of one byte.
    KinetoCollective{collective::kBarrier.name, "barrier", "AllReduce", true},
    KinetoCollective{collective::kAllReduce.name, "allreduce_coalesced", "AllReduce", true},
    KinetoCollective{collective::kReduceScatter.name, collective::kReduceScatter.name,
                     "ReduceScatter", true},
    KinetoCollective{collective::kReduceScatter.name, "reduce_scatter_tensor_coalesced",
                     "ReduceScatter", true},
    KinetoCollective{collective::kAllGather.name, collective::kAllGather.name, "AllGather", false},
    KinetoCollective{collective::kAllGather.name, "allgather_into_tensor_coalesced", "AllGather",
                     false},
    KinetoCollective{collective::kAllToAll.name, collective::kAllToAll.name, "SendRecv", false},
};

struct KinetoType {
  DType dtype;
  std::string_view torch;
  std::string_view nccl;
};

inline constexpr std::array kKinetoTypes = {
    KinetoType{DType::fp64, "Double", "f64"},
    KinetoType{DType::fp32, "Float", "f32"},
    KinetoType{DType::bf16, "BFloat16", "bf16"},
    KinetoType{DType::fp16, "Half", "f16"},
    KinetoType{DType::int8, "Char", "u8"},
    KinetoType{DType::int32, "Int", "u32"},
    KinetoType{DType::int64, "Long", "u64"},
    KinetoType{DType::fp8_e4m3, "Float8_e4m3fn", "f8e4m3"},
    KinetoType{DType::int8, "Byte", "u8"},
    KinetoType{DType::int8, "Bool", "u8"},
};

}  // namespace shardsim

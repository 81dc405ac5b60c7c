#include <algorithm>
#include <cstring>
#include <utility>

#include <pybind11/chrono.h>
#include <torch/extension.h>

#include "device.hpp"
#include "exchange.hpp"
#include "group.hpp"
#include "remote.hpp"

// The virtual device as a Python module.
namespace {

using namespace shardsim_torch;  // NOLINT(google-build-using-namespace): all of it is bound here.

// Storage::resize_ is compiled out without CUDA.
void resize_storage(std::uintptr_t storage, std::size_t bytes) {
  auto* const impl = reinterpret_cast<c10::StorageImpl*>(storage);
  c10::DataPtr made = allocate(bytes);
  if (const std::size_t kept = std::min(bytes, impl->nbytes()); with_data() && kept > 0) {
    std::memcpy(made.get(), impl->data(), kept);
  }
  impl->set_data_ptr(std::move(made));
  impl->set_nbytes(bytes);
}

pybind11::list entries() {
  pybind11::list list;
  for (const Entry& entry : Log::get().entries()) {
    list.append(pybind11::make_tuple(static_cast<int>(entry.kind), entry.stream, entry.row,
                                     entry.number, entry.amount));
  }
  return list;
}

void add(EntryKind kind, StreamNumber stream, std::int64_t number) {
  Log::get().add({.kind = kind, .stream = stream, .number = number});
}

}  // namespace

PYBIND11_MODULE(native, module) {
  module.doc() = "The virtual device and process group of shardsim.torch.";
  module.attr("GROUP_STREAMS") = kGroupStreams;

  module.def("memory_now", [] { return memory_use().now; });
  module.def("memory_peak", [] { return memory_use().peak; });
  module.def("reset_peak", &reset_peak);
  module.def("resize_storage", &resize_storage);
  module.def("allocation_of", [](std::uintptr_t address) {
    return number_of_allocation(reinterpret_cast<const void*>(address));
  });

  module.def("current_stream", &current_stream);
  module.def("set_current_stream", &set_current_stream);
  module.def("new_stream", &new_stream);
  module.def("new_event", &new_event);
  module.def("record_event", [](std::int64_t event, StreamNumber stream) {
    add(EntryKind::record, stream, event);
  });
  module.def("wait_event",
             [](std::int64_t event, StreamNumber stream) { add(EntryKind::block, stream, event); });
  module.def("synchronize_stream",
             [](StreamNumber stream) { add(EntryKind::synchronize, stream, 0); });
  module.def("synchronize_event",
             [](std::int64_t event) { add(EntryKind::synchronize_event, 0, event); });

  module.def("synchronize_device", &synchronize_device);
  module.def("set_library_folders", &set_library_folders);

  module.def("module_number",
             [](const std::string& path) { return Log::get().module_number(path); });
  module.def("enter_module", &enter_module);
  module.def("enter_optimizer", &enter_optimizer);
  module.def("leave", &leave);
  module.def("mark", [](const std::string& text) { Log::get().add_mark(current_stream(), text); });

  module.def("set_on", [](bool is_on) { Log::get().set_on(is_on); });
  module.def("entries", &entries);
  module.def("ops", [] { return Log::get().ops().texts(); });
  module.def("calls", [] { return Log::get().calls().texts(); });
  module.def("sites", [] { return Log::get().sites().texts(); });
  module.def("modules", [] { return Log::get().modules().texts(); });
  module.def("marks", [] { return Log::get().marks().texts(); });

  module.def(
      "set_recorders",
      [](int rank, std::vector<int> representative, c10::intrusive_ptr<c10d::Store> store) {
        set_recorders({rank, std::move(representative), std::move(store)});
      },
      pybind11::arg("rank"), pybind11::arg("representative"), pybind11::arg("store"));
  module.def("connect", &Remote::connect);
  module.def("say_rank", [](int rank) { Remote::get()->say_rank(rank); });
  module.def("end", [](const std::string& json) { Remote::get()->end(json); });
  module.def("make_group", [](const std::string& name, int rank, const std::vector<int>& members) {
    return make_group(name, rank, members);
  });
}

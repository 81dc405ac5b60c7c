#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/SequenceNumber.h>
#include <Python.h>
#include <frameobject.h>
#include <torch/csrc/autograd/function.h>

#include "device.hpp"

namespace shardsim_torch {

namespace {

thread_local std::vector<std::string> modules;
std::string phase;  // Python's main thread sets it.

// The module of each forward that autograd may go back through.
std::mutex forward_mutex;
std::map<std::uint64_t, std::int64_t> forward_places;

std::vector<std::string> library_folders;

bool is_of_library(const std::string& file) {
  if (file.rfind("<", 0) == 0) return true;  // Frozen, or made at run time.
  for (const std::string& folder : library_folders) {
    if (file.rfind(folder, 0) == 0) return true;
  }
  return false;
}

std::string name_of(PyFrameObject* frame) {
  PyCodeObject* const code = PyFrame_GetCode(frame);
  const char* const file = PyUnicode_AsUTF8(code->co_filename);
  std::string name = file == nullptr ? "" : file;
  Py_DECREF(code);
  return name;
}

}  // namespace

void set_library_folders(std::vector<std::string> folders) { library_folders = std::move(folders); }

void enter_module(const std::string& path) { modules.push_back(path); }
void leave_module() {
  if (!modules.empty()) modules.pop_back();
}
void set_phase(const std::string& name) { phase = name; }

std::int64_t current_place() {
  if (const auto node = torch::autograd::get_current_node()) {
    const std::lock_guard guard(forward_mutex);
    const auto found = forward_places.find(node->sequence_nr());
    if (found != forward_places.end()) return found->second;
    return Log::get().where("backward:");
  }
  const std::string module = modules.empty() ? "" : modules.back();
  if (!phase.empty()) return Log::get().where(phase + ":" + module);
  if (at::GradMode::is_enabled() || modules.empty()) {
    // The node that this operator gets has the next number.
    const std::lock_guard guard(forward_mutex);
    forward_places[at::sequence_number::peek()] = Log::get().where("backward:" + module);
  }
  return Log::get().where("forward:" + module);
}

std::string python_site() {
  if (Py_IsInitialized() == 0) return "";
  const PyGILState_STATE state = PyGILState_Ensure();
  std::string site;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame != nullptr) {
    const std::string file = name_of(frame);
    if (!is_of_library(file)) {
      site = file + ":" + std::to_string(PyFrame_GetLineNumber(frame));
      Py_DECREF(frame);
      break;
    }
    PyFrameObject* const back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  PyGILState_Release(state);
  return site.empty() ? "backward" : site;
}

}  // namespace shardsim_torch

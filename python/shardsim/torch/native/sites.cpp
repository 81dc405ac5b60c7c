#include <string>
#include <utility>
#include <vector>

#include <Python.h>
#include <frameobject.h>

#include "device.hpp"

namespace shardsim_torch {

namespace {

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

// The innermost frame of a thread that is outside these folders.
std::string site_of(PyThreadState* thread) {
  std::string site;
  PyFrameObject* frame = PyThreadState_GetFrame(thread);
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
  return site;
}

// Autograd's threads have no frames: the script's own thread waits for them meanwhile.
std::string site_of_script() {
  PyThreadState* thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
  while (thread != nullptr && PyThreadState_Next(thread) != nullptr) {
    thread = PyThreadState_Next(thread);  // The last one is the first that was made.
  }
  const std::string site = thread == nullptr ? "" : site_of(thread);
  return site.empty() ? "backward" : site + " (backward)";
}

}  // namespace

void set_library_folders(std::vector<std::string> folders) { library_folders = std::move(folders); }

std::string python_site() {
  if (Py_IsInitialized() == 0) return "";
  const PyGILState_STATE state = PyGILState_Ensure();
  std::string site = site_of(PyThreadState_Get());
  if (site.empty()) site = site_of_script();
  PyGILState_Release(state);
  return site;
}

}  // namespace shardsim_torch

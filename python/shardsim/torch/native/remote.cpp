#include "remote.hpp"

#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "device.hpp"

namespace shardsim_torch {

namespace {

Remote* remote = nullptr;

std::string json_text(const std::string& text) {
  std::string json = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') json += '\\';
    json += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return json + "\"";
}

std::string json_list(const std::vector<int>& values) {
  std::string json = "[";
  for (const int value : values) {
    if (json.size() > 1) json += ",";
    json += std::to_string(value);
  }
  return json + "]";
}

}  // namespace

Remote* Remote::get() { return remote; }
bool with_data() { return remote != nullptr; }

void Remote::connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  TORCH_CHECK(path.size() < sizeof(address.sun_path), "shardsim: the path ", path, " is too long");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  TORCH_CHECK(
      made >= 0 && ::connect(made, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0,
      "shardsim: there is no shardsim at ", path, ": ", std::strerror(errno));
  remote = new Remote(made);
}

Remote::Remote(int socket) : socket_(socket) {}

void Remote::say_rank(int rank) { send("\"rank\":" + std::to_string(rank), {}); }

void Remote::form(const std::string& group, const std::vector<int>& members) {
  const std::string site = python_site();  // It takes the interpreter's lock: before ours.
  const std::lock_guard guard(mutex_);
  send("\"form\":" + json_text(group) + ",\"members\":" + json_list(members) +
           ",\"site\":" + json_text(site),
       {});
}

std::int64_t Remote::post(const std::string& call, const std::vector<at::Tensor>& sent) {
  const std::string site = python_site();
  const std::lock_guard guard(mutex_);
  send("\"post\":" + std::to_string(next_) + ",\"call\":" + call + ",\"site\":" + json_text(site),
       sent);
  return next_++;
}

void Remote::wait(std::int64_t number, const std::vector<at::Tensor>& results) {
  const std::lock_guard guard(mutex_);
  send("\"wait\":" + std::to_string(number), {});
  std::uint64_t bytes = 0;
  read_all(&bytes, sizeof(bytes));
  std::uint64_t expected = 0;
  for (const at::Tensor& result : results) expected += result.nbytes();
  TORCH_CHECK(bytes == expected, "shardsim: ", bytes, " bytes came back of a call, and ", expected,
              " are expected");
  for (const at::Tensor& result : results) {
    at::Tensor got = at::empty(result.sizes(), result.options().device(c10::kCPU));
    read_all(got.data_ptr(), got.nbytes());
    on_host(result).copy_(got);
  }
}

void Remote::end(const std::string& json) {
  const std::lock_guard guard(mutex_);
  send(json, {});
}

void Remote::send(const std::string& fields, const std::vector<at::Tensor>& payload) {
  std::size_t bytes = 0;
  for (const at::Tensor& tensor : payload) bytes += tensor.nbytes();
  const std::string line = "{" + fields + ",\"bytes\":" + std::to_string(bytes) + "}\n";
  write_all(line.data(), line.size());
  for (const at::Tensor& tensor : payload) {
    const at::Tensor flat = on_host(tensor).contiguous();
    write_all(flat.data_ptr(), flat.nbytes());
  }
}

// Who writes to a run that has ended ends, too.
void Remote::write_all(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::send(socket_, at, bytes, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    TORCH_CHECK(written > 0, "shardsim: the run has ended");
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void Remote::read_all(void* data, std::size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::read(socket_, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    TORCH_CHECK(got > 0, "shardsim: the run has ended");
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

}  // namespace shardsim_torch

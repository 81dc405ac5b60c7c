#include "tests/checkpoint/memory_file_system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sim/kernel/random.hpp"

namespace shardsim::test {

struct MemoryFileSystem::Node {
  using Entries = std::map<std::string, std::shared_ptr<Node>>;
  bool is_folder = false;
  std::string bytes;
  std::string durable_bytes;
  Entries entries;
  Entries durable_entries;
};

namespace {

using Node = MemoryFileSystem::Node;

std::string name_in(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The part of a node that is found after a restart.
std::shared_ptr<Node> survivor(const Node& node, Survival survival, const RandomStream& random,
                               std::uint64_t& draws) {
  auto found = std::make_shared<Node>();
  found->is_folder = node.is_folder;
  const auto coin = [&] {
    if (survival == Survival::some) return random.below(draws++, 2) == 1;
    return survival == Survival::everything;
  };
  found->bytes = coin() ? node.bytes : node.durable_bytes;
  if (survival == Survival::some && node.bytes != node.durable_bytes && coin()) {
    // The length may be known before the bytes are, or the other way round.
    const std::size_t kept = random.below(draws++, found->bytes.size() + 1);
    const std::size_t length = coin() ? found->bytes.size() : kept;
    found->bytes.resize(kept);
    found->bytes.resize(length, '\0');
  }
  Node::Entries all = node.durable_entries;
  all.insert(node.entries.begin(), node.entries.end());
  for (const auto& [name, either] : all) {
    const auto entry_in = [&name = name](const Node::Entries& entries) {
      const auto entry = entries.find(name);
      return entry == entries.end() ? nullptr : entry->second;
    };
    const std::shared_ptr<Node> before = entry_in(node.durable_entries);
    const std::shared_ptr<Node> now = entry_in(node.entries);
    const std::shared_ptr<Node> kept = before == now || coin() ? now : before;
    if (kept) found->entries[name] = survivor(*kept, survival, random, draws);
  }
  found->durable_bytes = found->bytes;
  found->durable_entries = found->entries;
  return found;
}

std::shared_ptr<Node> deep_copy(const std::shared_ptr<Node>& node,
                                std::map<Node*, std::shared_ptr<Node>>& copies) {
  if (const auto known = copies.find(node.get()); known != copies.end()) return known->second;
  auto twin = std::make_shared<Node>(*node);
  copies[node.get()] = twin;
  for (auto* entries : {&twin->entries, &twin->durable_entries}) {
    for (auto& [name, child] : *entries) child = deep_copy(child, copies);
  }
  return twin;
}

class MemoryOutput : public OutputFile {
 public:
  MemoryOutput(MemoryFileSystem& files, std::string path, std::shared_ptr<Node> node)
      : files_(files), path_(std::move(path)), node_(std::move(node)) {}
  std::size_t write(std::span<const std::byte> bytes) override {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    const std::size_t count = std::min(bytes.size(), files_.longest_write);
    files_.call(FileOperation::write, path_, [&] { node_->bytes.append(text, count / 2); });
    node_->bytes.append(text, count);
    return count;
  }
  void sync() override {
    files_.call(FileOperation::sync, path_);
    node_->durable_bytes = node_->bytes;
  }
  void close() override { files_.call(FileOperation::close, path_); }

 private:
  MemoryFileSystem& files_;
  std::string path_;
  std::shared_ptr<Node> node_;
};

class MemoryInput : public InputFile {
 public:
  MemoryInput(MemoryFileSystem& files, std::string path, std::shared_ptr<Node> node)
      : files_(files), path_(std::move(path)), node_(std::move(node)) {}
  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(node_->bytes.size());
  }
  std::size_t read(std::int64_t offset, std::span<std::byte> bytes) override {
    files_.call(FileOperation::read, path_);
    const bool inside = offset >= 0 && offset <= size() &&
                        static_cast<std::int64_t>(bytes.size()) <= size() - offset;
    if (!inside) ++files_.reads_outside;
    if (offset < 0 || offset >= size()) return 0;
    const std::size_t count = std::min(bytes.size(), static_cast<std::size_t>(size() - offset));
    std::memcpy(bytes.data(), node_->bytes.data() + offset, count);
    return count;
  }

 private:
  MemoryFileSystem& files_;
  std::string path_;
  std::shared_ptr<Node> node_;
};

void collect(const Node& folder, const std::string& path, std::vector<std::string>& out) {
  for (const auto& [name, child] : folder.entries) {
    std::string inside = path;
    inside.append("/").append(name);
    if (child->is_folder) {
      collect(*child, inside, out);
    } else {
      out.push_back(inside);
    }
  }
}

}  // namespace

MemoryFileSystem::MemoryFileSystem() : root_(std::make_shared<Node>()) { root_->is_folder = true; }

void MemoryFileSystem::call(FileOperation operation, const std::string& path,
                            const std::function<void()>& torn) {
  ++calls;
  if (calls == stop_at) {
    if (torn) torn();
    throw MachineStopped();
  }
  if (calls == fail_at || (keeps_failing && calls > fail_at))
    throw FileError(operation, path, fail_with);
}

void MemoryFileSystem::restart(Survival survival, std::uint64_t seed) {
  std::uint64_t draws = 0;
  root_ = survivor(*root_, survival, RandomStream(seed, "restart"), draws);
  stop_at = 0;
  fail_at = 0;
  keeps_failing = false;
}

std::unique_ptr<MemoryFileSystem> MemoryFileSystem::copy() const {
  auto twin = std::make_unique<MemoryFileSystem>();
  std::map<Node*, std::shared_ptr<Node>> copies;
  twin->root_ = deep_copy(root_, copies);
  return twin;
}

std::shared_ptr<Node> MemoryFileSystem::find(const std::string& path,
                                             FileOperation operation) const {
  std::shared_ptr<Node> node = root_;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t begin = path.find_first_not_of('/', at);
    if (begin == std::string::npos) break;
    at = std::min(path.find('/', begin), path.size());
    if (!node->is_folder) throw FileError(operation, path, ENOTDIR);
    const auto found = node->entries.find(path.substr(begin, at - begin));
    if (found == node->entries.end()) throw FileError(operation, path, ENOENT);
    node = found->second;
  }
  return node;
}

std::shared_ptr<Node> MemoryFileSystem::folder_of(const std::string& path,
                                                  FileOperation operation) const {
  return find(parent_of(path), operation);
}

std::string MemoryFileSystem::read_file(const std::string& path) const {
  return find(path, FileOperation::open)->bytes;
}

void MemoryFileSystem::write_file(const std::string& path, const std::string& text) {
  const auto folder = folder_of(path, FileOperation::create);
  auto node = std::make_shared<Node>();
  node->bytes = text;
  node->durable_bytes = text;
  folder->entries[name_in(path)] = node;
  folder->durable_entries[name_in(path)] = node;
}

std::vector<std::string> MemoryFileSystem::all_files() const {
  std::vector<std::string> paths;
  collect(*root_, "", paths);
  return paths;
}

void MemoryFileSystem::make_folder(const std::string& path) {
  call(FileOperation::make_folder, path);
  auto& entry = folder_of(path, FileOperation::make_folder)->entries[name_in(path)];
  if (entry != nullptr) return;
  entry = std::make_shared<Node>();
  entry->is_folder = true;
}

std::unique_ptr<OutputFile> MemoryFileSystem::create(const std::string& path) {
  call(FileOperation::create, path);
  auto& entry = folder_of(path, FileOperation::create)->entries[name_in(path)];
  if (entry == nullptr) entry = std::make_shared<Node>();
  entry->bytes.clear();
  return std::make_unique<MemoryOutput>(*this, path, entry);
}

std::unique_ptr<InputFile> MemoryFileSystem::open(const std::string& path) {
  call(FileOperation::open, path);
  ++opens[path];
  const auto node = find(path, FileOperation::open);
  if (node->is_folder) throw FileError(FileOperation::open, path, EISDIR);
  return std::make_unique<MemoryInput>(*this, path, node);
}

void MemoryFileSystem::rename(const std::string& from, const std::string& to) {
  call(FileOperation::rename, to);
  const auto node = find(from, FileOperation::rename);
  folder_of(from, FileOperation::rename)->entries.erase(name_in(from));
  folder_of(to, FileOperation::rename)->entries[name_in(to)] = node;
}

void MemoryFileSystem::sync_folder(const std::string& path) {
  call(FileOperation::sync_folder, path);
  const auto node = find(path, FileOperation::sync_folder);
  node->durable_entries = node->entries;
}

std::vector<std::string> MemoryFileSystem::list(const std::string& path) {
  call(FileOperation::list, path);
  const auto node = find(path, FileOperation::list);
  if (!node->is_folder) throw FileError(FileOperation::list, path, ENOTDIR);
  std::vector<std::string> names;
  for (const auto& [name, child] : node->entries) names.push_back(name);
  return names;
}

void MemoryFileSystem::remove(const std::string& path) {
  call(FileOperation::remove, path);
  static_cast<void>(find(path, FileOperation::remove));
  folder_of(path, FileOperation::remove)->entries.erase(name_in(path));
}

void MemoryFileSystem::remove_folder(const std::string& path) {
  call(FileOperation::remove_folder, path);
  if (!find(path, FileOperation::remove_folder)->entries.empty()) {
    throw FileError(FileOperation::remove_folder, path, ENOTEMPTY);
  }
  folder_of(path, FileOperation::remove_folder)->entries.erase(name_in(path));
}

}  // namespace shardsim::test

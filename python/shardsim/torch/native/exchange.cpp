#include "exchange.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "device.hpp"
#include "remote.hpp"

namespace shardsim_torch {

namespace {

Recorders recorders;

bool is_recorded_together() {
  return recorders.store != nullptr && !recorders.representative.empty();
}

std::vector<std::uint8_t> bytes_of(const at::Tensor& tensor) {
  const at::Tensor flat = on_host(tensor).contiguous();
  const auto* const begin = static_cast<const std::uint8_t*>(flat.data_ptr());
  return {begin, begin + flat.nbytes()};
}

// Nothing is left of a tensor whose values are not known.
std::vector<std::uint8_t> known_bytes_of(const at::Tensor& tensor) {
  return is_known(tensor) && is_small(tensor) ? bytes_of(tensor) : std::vector<std::uint8_t>();
}

at::Tensor tensor_of(const std::vector<std::uint8_t>& bytes, const at::Tensor& like) {
  at::Tensor made = at::empty(like.sizes(), like.options().device(c10::kCPU));
  TORCH_CHECK(bytes.size() == static_cast<std::size_t>(made.nbytes()),
              "shardsim: members of a call have tensors of other sizes: ", made.nbytes(),
              " bytes here, ", bytes.size(), " bytes on another rank");
  std::memcpy(made.data_ptr(), bytes.data(), bytes.size());
  return made;
}

bool may_be_exchanged(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.nbytes()) <= kSmallBytes;
}

}  // namespace

void set_recorders(Recorders given) { recorders = std::move(given); }

void set_values(const at::Tensor& to, const at::Tensor& values) {
  if (!is_small(to) || to.numel() != values.numel()) return;
  on_host(to).copy_(values.view(to.sizes()));
  set_known(to);
}

Fetch Exchange::all(const at::Tensor& tensor, std::function<void(const Values&)> use) {
  // Counted whatever the size is: members may have other sizes.
  const std::string key = group_ + "/" + std::to_string(num_exchanges_++) + "/";
  if (with_data()) return nullptr;  // The values come from the call itself.
  if (!may_be_exchanged(tensor)) return nullptr;
  const bool known = is_known(tensor) && is_small(tensor);
  const at::Tensor values = known ? on_host(tensor).clone() : at::Tensor();
  if (is_recorded_together()) {
    recorders.store->set(key + std::to_string(own()), known_bytes_of(tensor));
  }
  return [=, this, use = std::move(use)] {
    if (const auto all = values_of_all(key, tensor, values)) use(*all);
  };
}

Fetch Exchange::each(const std::vector<at::Tensor>& tensors,
                     std::function<void(const at::Tensor&, const Values&)> use) {
  std::vector<Fetch> fetches;
  for (const at::Tensor& tensor : tensors) {
    Fetch fetch = all(tensor, [=](const Values& values) { use(tensor, values); });
    if (fetch) fetches.push_back(std::move(fetch));
  }
  return [fetches] {
    for (const Fetch& fetch : fetches) fetch();
  };
}

// The recorded rank that stands for another, if it is a member, too; else this one.
int Exchange::stand_in(int rank) const {
  if (!is_recorded_together()) return own();
  const int other = recorders.representative[static_cast<std::size_t>(rank)];
  const bool is_member = std::find(members_.begin(), members_.end(), other) != members_.end();
  return is_member ? other : own();
}

// None where one of them is not known.
std::optional<Exchange::Values> Exchange::values_of_all(const std::string& key,
                                                        const at::Tensor& like,
                                                        const at::Tensor& own_values) const {
  std::map<int, at::Tensor> known;
  if (own_values.defined()) known[own()] = own_values;
  Values all;
  for (const int rank : members_) {
    const int other = stand_in(rank);
    if (other != own() && known.count(other) == 0) {
      const std::vector<std::uint8_t> bytes = left_by(key + std::to_string(other), other);
      if (!bytes.empty()) known[other] = tensor_of(bytes, like);
    }
    const auto found = known.find(other);
    if (found == known.end()) return std::nullopt;
    all.push_back(found->second);
  }
  return all;
}

std::vector<std::uint8_t> Exchange::left_by(const std::string& key, int rank) const {
  try {
    return recorders.store->get(key);
  } catch (const std::exception&) {
    TORCH_CHECK(false, "shardsim: rank ", own(), " waits in group ", group_, " for rank ", rank,
                ", which has not sent anything for a long time: they do not make the same calls, "
                "or wait for each other");
  }
}

// --- Messages ----------------------------------------------------------------------------------

bool Exchange::is_recorded(int member) const {
  const int rank = members_[static_cast<std::size_t>(member)];
  return is_recorded_together() && recorders.representative[static_cast<std::size_t>(rank)] == rank;
}

void Exchange::leave_message(const at::Tensor& tensor, int to) {
  const std::string key = group_ + "/" + std::to_string(rank_) + ">" + std::to_string(to) + "/" +
                          std::to_string(num_sent_[to]++);
  if (with_data() || !is_recorded(to) || !may_be_exchanged(tensor)) return;
  recorders.store->set(key, known_bytes_of(tensor));
}

Fetch Exchange::message(const at::Tensor& tensor, int from) {
  const std::string key = group_ + "/" + std::to_string(from) + ">" + std::to_string(rank_) + "/" +
                          std::to_string(num_received_[from]++);
  if (!is_recorded(from) || !may_be_exchanged(tensor)) return nullptr;
  return [=, this] {
    const std::vector<std::uint8_t> bytes = left_by(key, members_[static_cast<std::size_t>(from)]);
    if (!bytes.empty()) set_values(tensor, tensor_of(bytes, tensor));
  };
}

}  // namespace shardsim_torch

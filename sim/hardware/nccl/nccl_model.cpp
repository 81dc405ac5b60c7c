#include "sim/hardware/faults/faulty_network.hpp"
#include "sim/hardware/nccl/prices.hpp"
#include "sim/hardware/network_model.hpp"

namespace shardsim {

namespace {

constexpr double kUsPerS = 1e6;

class NcclModel final : public NetworkModel {
 public:
  explicit NcclModel(const Cluster& cluster) : prices_(cluster) {}

  bool depends_on_order() const override { return false; }
  bool depends_on_start() const override { return false; }

  CollectivePrice collective(const CollectiveRequest& request, Time) override {
    if (request.layout->size() == 1) return {};
    const NcclPrice price = prices_.collective(request);
    return {.duration = time_of(price), .algorithm = price.algorithm};
  }

  Time transfer(int source, int destination, std::int64_t bytes, Time) override {
    if (source == destination) return Time();
    return time_of(prices_.message(source, destination, bytes));
  }

 private:
  [[nodiscard]] Time time_of(const NcclPrice& price) const {
    return Time::from_seconds(corrected_us(prices_.platform().overrides, price) / kUsPerS);
  }

  NcclPrices prices_;
};

}  // namespace

std::unique_ptr<NetworkModel> make_nccl_model(const Cluster& cluster) {
  return std::make_unique<NcclModel>(cluster);
}

std::unique_ptr<NetworkModel> make_network_model(const Cluster& cluster) {
  if (cluster.faults != nullptr && cluster.faults->has_links()) return make_faulty_network(cluster);
  return cluster.nccl == nullptr ? make_alpha_beta_model(cluster) : make_nccl_model(cluster);
}

}  // namespace shardsim

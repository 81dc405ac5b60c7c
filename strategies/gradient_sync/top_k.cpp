#include <algorithm>
#include <cmath>
#include <numeric>

#include "strategies/gradient_sync/compressed_reducer.hpp"

namespace shardsim {

namespace {

// Values and their places. The first of equally large values are sent. Neutral: ratio 1. Sources:
// Lin et al. 2018, "Deep Gradient Compression", without momentum correction; Stich et al. 2018,
// "Sparsified SGD with Memory".
class TopK final : public Compressor {
 public:
  explicit TopK(const GradientCompression& options) : options_(options) {}

  [[nodiscard]] std::vector<Tensor> make_parcel(Runtime& runtime, std::int64_t numel, DType dtype,
                                                std::int64_t ranks) const override {
    const std::int64_t kept = ranks * num_kept(options_, numel);
    std::vector<Tensor> parcel;
    parcel.push_back(runtime.allocate(MemoryCategory::comm, {kept}, dtype));
    parcel.push_back(runtime.allocate(MemoryCategory::comm, {kept}, DType::int32));
    return parcel;
  }

  void compress(Runtime& runtime, const Tensor& values,
                const std::vector<Tensor>& parcel) const override {
    const Tensor& kept = parcel[0];
    const Tensor& places = parcel[1];
    // One pass to find the threshold, one to take what is above it.
    const std::int64_t bytes = 2 * values.num_bytes() + 2 * kept.num_bytes() + places.num_bytes();
    runtime.compute(memory_op("select_top_k", values.dtype(), bytes), [&] {
      const std::vector<std::int64_t> largest = largest_of(values, kept.numel());
      for (std::int64_t i = 0; i < kept.numel(); ++i) {
        const std::int64_t place = largest[to_size(i)];
        kept.set(i, values.get(place));
        places.set(i, static_cast<double>(place));
        values.set(place, 0.0);
      }
    });
  }

  void add(const Tensor& sum, const std::vector<Tensor>& gathered, std::int64_t rank,
           std::int64_t ranks) const override {
    const std::int64_t kept = gathered[0].numel() / ranks;
    for (std::int64_t i = rank * kept; i < (rank + 1) * kept; ++i) {
      const auto place = static_cast<std::int64_t>(gathered[1].get(i));
      sum.set(place, sum.get(place) + gathered[0].get(i));
    }
  }

 private:
  static std::vector<std::int64_t> largest_of(const Tensor& values, std::int64_t count) {
    std::vector<double> sizes;
    for (std::int64_t i = 0; i < values.numel(); ++i) sizes.push_back(std::fabs(values.get(i)));
    std::vector<std::int64_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    // A total order, also of what is not a number, which is sent first.
    const auto size = [&](std::int64_t place) {
      const double x = sizes[to_size(place)];
      return std::isnan(x) ? HUGE_VAL : x;
    };
    std::nth_element(order.begin(), order.begin() + count, order.end(),
                     [&](std::int64_t a, std::int64_t b) {
                       return size(a) != size(b) ? size(a) > size(b) : a < b;
                     });
    order.resize(to_size(count));
    std::sort(order.begin(), order.end());
    return order;
  }

  GradientCompression options_;
};

}  // namespace

std::unique_ptr<Compressor> make_top_k(const GradientCompression& options) {
  return std::make_unique<TopK>(options);
}

// The same, written a second time for the oracle: with nothing of TopK and of num_kept in it, it
// makes none of their mistakes.
CompressedValues keep_largest(const std::vector<double>& values,
                              const GradientCompression& options) {
  // One by one until the share is reached; 7 of 100 are 0.07, though 0.07 x 100 is more than 7.
  const auto size = static_cast<double>(values.size());
  std::size_t count = 1;
  while (count < values.size() && static_cast<double>(count) / size < options.ratio) ++count;
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::fabs(values[a]) > std::fabs(values[b]);
  });
  CompressedValues sent{std::vector<double>(values.size(), 0.0), values};
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i) {
    sent.received[order[i]] = values[order[i]];
    sent.left[order[i]] = 0.0;
  }
  return sent;
}

double bytes_of_largest(const GradientCompression& options, double numel, double element_bytes) {
  const double place = 4.0;
  return numel * options.ratio * (element_bytes + place);
}

}  // namespace shardsim

#include "sim/kernel/clock_stretch.hpp"

namespace shardsim {

void ClockStretch::launch(Time host_time, Time price) {
  works_.push_back({host_time, price});
  if (host_time > Time()) {
    host_is_free_ = false;
    // The host is late where its clock passes the stream's.
    if (stream_to_host_ + host_time > stream_to_stream_) is_late_ = true;
    if (host_to_host_ + host_time > host_to_stream_) {
      margin_ = min(margin_, stream_to_stream_ - host_to_host_ - host_time);
    }
  }
  stream_to_host_ += host_time;
  host_to_host_ += host_time;
  stream_to_stream_ = max(stream_to_stream_, stream_to_host_) + price;
  host_to_stream_ = max(host_to_stream_, host_to_host_) + price;
  busy_ += price;
  if (!rules_.waits_for_kernels) return;
  stream_to_host_ = stream_to_stream_;
  host_to_host_ = host_to_stream_;
}

void ClockStretch::synchronize() {
  works_.push_back({.host_time = Time(), .price = Time(), .synchronizes = true});
  host_is_free_ = false;
  stream_to_host_ = stream_to_stream_;
  host_to_host_ = host_to_stream_;
}

}  // namespace shardsim

#include <catch2/catch.hpp>

#include "backends/nccl/nccl_library.hpp"

namespace shardsim {

namespace {

constexpr auto kShared = [] {
  return NcclSetting{.num_ranks = 4, .num_visible_gpus = 1, .rank = 2, .job = "job7"};
};

}  // namespace

TEST_CASE("ranks that share GPUs are machines of their own to NCCL, over loopback sockets") {
  const EnvironmentMap shared = nccl_environment(kShared(), {});
  CHECK(shared.at("NCCL_HOSTID") == "job7-r2");
  CHECK(shared.at("NCCL_NET") == "Socket");
  CHECK(shared.at("NCCL_SOCKET_IFNAME") == "=lo");
  CHECK(shared.at("NCCL_MNNVL_ENABLE") == "0");
  CHECK(shared.at("NCCL_P2P_DISABLE") == "1");
  CHECK(shared.at("NCCL_SHM_DISABLE") == "1");
  CHECK(shared.at("NCCL_MAX_CTAS") == "1");
  CHECK(shares_gpus(kShared()));
  // Each its own.
  NcclSetting other = kShared();
  other.rank = 3;
  CHECK(nccl_environment(other, {}).at("NCCL_HOSTID") != shared.at("NCCL_HOSTID"));
}

TEST_CASE("with a GPU per rank nothing is changed about how ranks reach each other") {
  NcclSetting setting = kShared();
  setting.num_visible_gpus = 4;
  CHECK_FALSE(shares_gpus(setting));
  CHECK(nccl_environment(setting, {}) == EnvironmentMap{{"NCCL_LAUNCH_ORDER_IMPLICIT", "1"},
                                                        {"NCCL_DEBUG", "WARN"},
                                                        {"NCCL_RAS_ENABLE", "0"},
                                                        {"NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN"}});
}

TEST_CASE("exact volume asks for one algorithm and protocol") {
  NcclSetting setting = kShared();
  CHECK(nccl_environment(setting, {}).count("NCCL_ALGO") == 0);
  setting.exact_volume = true;
  const EnvironmentMap exact = nccl_environment(setting, {});
  CHECK(exact.at("NCCL_ALGO") == "Ring");
  CHECK(exact.at("NCCL_PROTO") == "Simple");
  CHECK(exact.at("NCCL_PAT_ENABLE") == "0");
}

TEST_CASE("what the user has set stays") {
  const EnvironmentMap present = {{"NCCL_DEBUG", "INFO"}, {"NCCL_SOCKET_IFNAME", "eth0"}};
  const EnvironmentMap wanted = nccl_environment(kShared(), present);
  CHECK(wanted.count("NCCL_DEBUG") == 0);
  CHECK(wanted.count("NCCL_SOCKET_IFNAME") == 0);
  CHECK(wanted.count("NCCL_HOSTID") == 1);
}

TEST_CASE("the variables in force are NCCL's and the choice of GPUs") {
  set_environment({{"NCCL_DEBUG", "VERSION"}, {"CUDA_VISIBLE_DEVICES", "3"}, {"OTHER", "1"}});
  const EnvironmentMap found = nccl_variables_in_force();
  CHECK(found.at("NCCL_DEBUG") == "VERSION");
  CHECK(found.at("CUDA_VISIBLE_DEVICES") == "3");
  CHECK(found.count("OTHER") == 0);
  unsetenv("NCCL_DEBUG");
  unsetenv("CUDA_VISIBLE_DEVICES");
  unsetenv("OTHER");
}

}  // namespace shardsim

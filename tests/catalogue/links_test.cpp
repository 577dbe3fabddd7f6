// The links of the catalogue: figures, names, and the cost of exchanges over them.
#include "plimsoll/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "plimsoll/error.h"
#include "refusals.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

CostModel cost_of(const char* gpu, const PeerTopology& topology) {
  CostModel model;
  set_peer_link(model, &require_device(gpu), topology);
  return model;
}

double reached(const char* link) {
  return require_link(link).bytes_per_second * require_link(link).reach;
}

TEST(Links, HaveFiguresOfTheRightSizeAndTheirSources) {
  std::set<std::string> ids;
  for (const LinkSpec& link : link_catalogue()) {
    SCOPED_TRACE(link.id);
    EXPECT_TRUE(ids.insert(link.id).second);
    EXPECT_THAT(link.id, ::testing::MatchesRegex("[a-z0-9-]+"));
    EXPECT_GE(link.bytes_per_second, 1e9);
    EXPECT_LE(link.bytes_per_second, 1e12);
    EXPECT_GT(link.reach, 0.3);
    EXPECT_LE(link.reach, 1);
    EXPECT_GE(link.latency_seconds, 1e-6);
    EXPECT_LE(link.latency_seconds, 1e-4);
    for (const char* figures : {"rate: ", "reach: ", "latency: "})
      EXPECT_THAT(link.sources, Contains(StartsWith(figures)));
  }
}

TEST(Links, CountOneDirection) {
  EXPECT_EQ(require_link("nvlink2").bytes_per_second, 150e9);
  EXPECT_EQ(require_link("nvlink3").bytes_per_second, 300e9);
  EXPECT_EQ(require_link("nvlink4").bytes_per_second, 450e9);
  EXPECT_EQ(require_link("nvlink5").bytes_per_second, 900e9);
  EXPECT_EQ(require_link("nvlink3-bridge").bytes_per_second, 112.5e9 / 2);
  EXPECT_NEAR(require_link("pcie4-x16").bytes_per_second, 31.5e9, 0.01e9);
  EXPECT_EQ(require_link("hdr").bytes_per_second, 25e9);
  EXPECT_EQ(require_link("ethernet-10").bytes_per_second, 1.25e9);
}

TEST(Links, AreFoundByEachOfTheirNames) {
  for (const LinkSpec& link : link_catalogue()) {
    std::vector<std::string> names = link.aliases;
    names.insert(names.end(), {link.id, link.name});
    for (const std::string& name : names) {
      ASSERT_NE(find_link(name), nullptr) << name;
      EXPECT_EQ(find_link(name)->id, link.id) << name;
    }
  }
  EXPECT_EQ(find_link("PCIe 4.0 x16")->id, "pcie4-x16");
  EXPECT_EQ(find_link("InfiniBand NDR")->id, "infiniband-ndr");
  EXPECT_EQ(find_link(""), nullptr);
  EXPECT_EQ(find_link(std::string(10000, 'n')), nullptr);
}

TEST(Links, UnknownNamesAreRefusedWithTheNearest) {
  EXPECT_THAT(refusal_of([] { require_link("nvlnk3"); }),
              AllOf(HasSubstr("'nvlnk3'"), HasSubstr("did you mean nvlink3")));
  EXPECT_THAT(refusal_of([] { require_link("infiniband"); }), HasSubstr("infiniband-ndr"));
  EXPECT_THAT(refusal_of([] { require_link("carrier pigeon"); }),
              AllOf(HasSubstr("allowed: "), HasSubstr("pcie5-x16")));
}

TEST(Links, OfADeviceAreItsOwn) {
  EXPECT_EQ(require_link("nvlink3", require_device("a6000")).id, "nvlink3-bridge");
  EXPECT_EQ(require_link("nvlink", require_device("a6000")).id, "nvlink3-bridge");
  EXPECT_EQ(require_link("bridge", require_device("h100-pcie")).id, "nvlink4-bridge");
  EXPECT_EQ(require_link("nvlink3", require_device("a100-80gb-sxm")).id, "nvlink3");
  EXPECT_EQ(require_link("nvlink", require_device("b200")).id, "nvlink5");
  EXPECT_EQ(require_link("nvlink5", require_device("a6000")).id, "nvlink5");  // for what-if questions, although it has
                                                                              // no such link
  EXPECT_THAT(refusal_of([] { require_link("nvlink", require_device("rtx4090")); }),
              AllOf(HasSubstr("RTX 4090 has no NVLink"), HasSubstr("pcie4-x16")));
  EXPECT_THAT(refusal_of([] { require_link("bridge", require_device("h100-sxm")); }), HasSubstr("no NVLink bridge"));
}

TEST(Links, EveryDeviceHasOne) {
  for (const DeviceSpec& device : device_catalogue()) {
    SCOPED_TRACE(device.id);
    ASSERT_NE(find_link(device.peer_link), nullptr) << device.peer_link;
    if (!device.bridge.empty()) {
      ASSERT_NE(find_link(device.bridge), nullptr) << device.bridge;
      EXPECT_EQ(find_link(device.bridge)->max_devices, 2);
    }
    EXPECT_THAT(device.sources, Contains(StartsWith("peer link: ")));
    if (device.peer_link.starts_with("pcie")) {
      EXPECT_NEAR(find_link(device.peer_link)->bytes_per_second, device.host_link, 0.01 * device.host_link);
    }
  }
  for (const auto& [gpu, link] : std::vector<std::pair<const char*, const char*>>{{"v100-sxm2-32gb", "nvlink2"},
                                                                                  {"a100-80gb-sxm", "nvlink3"},
                                                                                  {"h100-sxm", "nvlink4"},
                                                                                  {"h200", "nvlink4"},
                                                                                  {"b200", "nvlink5"},
                                                                                  {"a6000", "pcie4-x16"},
                                                                                  {"rtx4090", "pcie4-x16"},
                                                                                  {"rtx4060ti-16gb", "pcie4-x8"},
                                                                                  {"rtx5090", "pcie5-x16"},
                                                                                  {"rtx2080ti", "pcie3-x16"},
                                                                                  {"h100-pcie", "pcie5-x16"},
                                                                                  {"mi300x", "infinity-fabric4"},
                                                                                  {"rx7900xtx", "pcie4-x16"}})
    EXPECT_EQ(require_device(gpu).peer_link, link) << gpu;
}

TEST(PeerLink, OfOneRankIsNone) {
  const CostModel model = cost_of("h100-sxm", {});
  EXPECT_EQ(model.peer_link, 0);
  EXPECT_EQ(model.peer_latency, 0);
}

TEST(PeerLink, InOneMachineIsTheLinkOfTheDevice) {
  const CostModel model = cost_of("h100-sxm", {.ranks = 8});
  EXPECT_DOUBLE_EQ(model.peer_link, reached("nvlink4"));
  EXPECT_DOUBLE_EQ(model.peer_latency, 3 * require_link("nvlink4").latency_seconds);
  EXPECT_DOUBLE_EQ(cost_of("a6000", {.ranks = 8}).peer_link, reached("pcie4-x16"));
  EXPECT_DOUBLE_EQ(cost_of("a6000", {.ranks = 8, .link = "pcie5"}).peer_link, reached("pcie5-x16"));
}

// With 8 devices, 1 of 7 peers is behind the bridge.
TEST(PeerLink, ABridgeConnectsTwo) {
  EXPECT_DOUBLE_EQ(cost_of("a6000", {.ranks = 2, .link = "nvlink3"}).peer_link, reached("nvlink3-bridge"));
  const CostModel eight = cost_of("a6000", {.ranks = 8, .link = "nvlink3"});
  EXPECT_DOUBLE_EQ(eight.peer_link, reached("pcie4-x16") / (6.0 / 7));
  EXPECT_DOUBLE_EQ(eight.peer_latency,
                   require_link("nvlink3-bridge").latency_seconds + 2 * require_link("pcie4-x16").latency_seconds);
}

// With 16 devices on 2 machines, 8 of 15 peers are on the other machine.
TEST(PeerLink, OfSeveralMachinesIsTheSlowerOfLinkAndNetwork) {
  const CostModel hdr = cost_of("h100-sxm", {.ranks = 16});
  EXPECT_DOUBLE_EQ(hdr.peer_link, reached("infiniband-hdr") / (8.0 / 15));
  EXPECT_DOUBLE_EQ(hdr.peer_latency,
                   3 * require_link("nvlink4").latency_seconds + require_link("infiniband-hdr").latency_seconds);
  EXPECT_DOUBLE_EQ(cost_of("h100-sxm", {.ranks = 16, .network = "xdr"}).peer_link,
                   reached("infiniband-xdr") / (8.0 / 15));
  // Here the link in the machine is the slower one.
  EXPECT_DOUBLE_EQ(cost_of("rtx2080ti", {.ranks = 16, .network = "xdr"}).peer_link, reached("pcie3-x16") / (7.0 / 15));
  EXPECT_DOUBLE_EQ(cost_of("h100-sxm", {.ranks = 4, .devices_per_machine = 1}).peer_link, reached("infiniband-hdr"));
  EXPECT_DOUBLE_EQ(cost_of("h100-sxm", {.ranks = 4, .link = "ethernet-25"}).peer_link, reached("ethernet-25"));
}

TEST(PeerLink, OfProcessesOnTheCpuIsSharedMemory) {
  CostModel model;
  EXPECT_EQ(set_peer_link(model, nullptr, {.ranks = 2}, /*on_cpu=*/true), "shared memory of one host");
  EXPECT_DOUBLE_EQ(model.peer_link, 2e9);
  set_peer_link(model, nullptr, {.ranks = 2});
  EXPECT_DOUBLE_EQ(model.peer_link, reached("pcie4-x16"));
}

TEST(PeerLink, IsSaidInWords) {
  CostModel model;
  EXPECT_EQ(set_peer_link(model, &require_device("a6000"), {.ranks = 16, .link = "nvlink3"}),
            "NVLink 3 bridge (RTX 3090, RTX A6000, A40) between 2 devices, PCI Express 4.0 x16 between 8 devices, "
            "InfiniBand HDR, 200 Gbit/s");
}

TEST(PeerLink, RefusesWhatIsNone) {
  CostModel model;
  const DeviceSpec& device = require_device("a6000");
  EXPECT_THAT(refusal_of([&] { set_peer_link(model, &device, {.ranks = 0}); }), HasSubstr("at least 1"));
  EXPECT_THAT(refusal_of([&] { set_peer_link(model, &device, {.devices_per_machine = 0}); }),
              HasSubstr("per machine is 0"));
  EXPECT_THAT(refusal_of([&] { set_peer_link(model, &device, {.link = "string"}); }), HasSubstr("unknown link"));
  EXPECT_THAT(refusal_of([&] { set_peer_link(model, &device, {.ranks = 16, .network = "string"}); }),
              HasSubstr("unknown link"));
}

}  // namespace
}  // namespace plimsoll

// Tests that a world of one rank on a GPU uses NCCL.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "collectives/exchange_bits.h"
#include "cuda/needs_gpu.h"
#include "plimsoll/ranks.h"
#include "test_files.h"

namespace plimsoll {
namespace {

TEST(Nccl, AWorldOfOneExchangesOnTheDevice) {
  PLIMSOLL_NEEDS_GPU();
  const TempFolder folder;
  Rendezvous rendezvous;
  rendezvous.file = folder / "store";
  rendezvous.device = "cuda";
  rendezvous.through_network = true;
  const auto exchange = meet(rendezvous);
  const at::Tensor source = random_tensor(1001, at::kFloat, 1).to(at::kBFloat16),
                   before = random_tensor(1001, at::kFloat, 2);
  const at::Tensor sum = before.to(at::kCUDA), on_device = source.to(at::kCUDA);
  exchange->reduce_scatter(sum, on_device, false);
  expect_same_bits(sum.cpu(), before.clone().add_(source), "reduce_scatter");
  exchange->all_reduce(sum, on_device, true);
  expect_same_bits(sum.cpu(), source.to(at::kFloat), "all_reduce");
  exchange->all_gather(sum);
  exchange->broadcast(sum, 0);
  expect_same_bits(sum.cpu(), source.to(at::kFloat), "all_gather and broadcast");
  EXPECT_EQ(exchange->gather_text("here"), std::vector<std::string>{"here"});
  EXPECT_EQ(exchange->bytes_sent(), 0);
}

}  // namespace
}  // namespace plimsoll

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "boot/keys.hpp"
#include "boot/pmi_session.hpp"
#include "boot/ways.hpp"

namespace nacre::boot {
namespace {

constexpr std::initializer_list<const char*> kPmiVariables = {
    "PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT", "PMIX_NAMESPACE", "PMIX_RANK", "FLUX_JOB_ID", "SLURM_PROCID"};

// Keys are common to all: each is told apart by its owner.
class PmiKeys final : public Keys {
 public:
  explicit PmiKeys(PmiSession session) : session_(std::move(session)) {}

  [[nodiscard]] std::uint32_t rank() const override { return session_.rank(); }
  [[nodiscard]] std::uint32_t size() const override { return session_.size(); }
  Result<void> put(std::string_view key, std::string_view value) override {
    return session_.put_long(owned(rank(), key), value);
  }
  Result<void> barrier() override { return session_.barrier(); }
  Result<std::string> get(std::uint32_t owner, std::string_view key) override {
    return session_.get_long(owned(owner, key));
  }
  Result<void> finish() override { return session_.finalize(); }

 private:
  static std::string owned(std::uint32_t owner, std::string_view key) { return fmt::format("{}.{}", key, owner); }
  PmiSession session_;
};

}  // namespace

Result<Boot> boot_by_pmi(const BootRequest& request) {
  auto session = PmiSession::open(request.variables, request.patience);
  if (!session) {
    return Error{
        session.error().code,
        fmt::format("--boot=pmi: {} (seen: {}); a manager with a PMI-1 server has to start this shell, as Hydra, "
                    "Flux and `srun --mpi=pmi2` do; --standalone needs none",
                    session.error().message, seen_of(request.variables, kPmiVariables))};
  }
  PmiKeys keys(std::move(*session));
  return boot_by_keys(request, keys, Way::pmi, "PMI_FD is set");
}

}  // namespace nacre::boot

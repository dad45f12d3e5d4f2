// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/print.hpp"
#include "boot/hydra.hpp"
#include "boot/keys.hpp"
#include "boot/pmi_session.hpp"
#include "boot/ways.hpp"
#include "event/clock.hpp"

namespace nacre::boot {
namespace {

constexpr std::initializer_list<const char*> kPmiVariables = {
    "PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT", "PMIX_NAMESPACE", "PMIX_RANK", "FLUX_JOB_ID", "SLURM_PROCID"};

// All processes share one space of keys, so each key has its owner's rank in its name.
class PmiKeys final : public Keys {
 public:
  explicit PmiKeys(PmiSession session) : session_(std::move(session)) {}

  [[nodiscard]] std::uint32_t rank() const override { return session_.rank(); }
  [[nodiscard]] std::uint32_t size() const override { return session_.size(); }
  Result<void> put(std::string_view key, std::string_view value) override {
    return session_.put_long(owned(rank(), key), value);
  }
  Result<void> barrier() override {
    auto server = session_.server();
    if (!server || !is_hydra_proxy(*server)) return session_.barrier();
    auto mapping = session_.get("PMI_process_mapping");
    auto count = mapping ? proxies_in_mapping(*mapping) : std::nullopt;
    if (!count) return session_.barrier();
    std::optional<HydraProxies> proxies;
    std::optional<Error> known;
    return session_.barrier([&]() -> std::optional<Error> {
      // Reports it only at the next look, as otherwise Hydra, which then kills this shell, may not have read the
      // line below.
      if (known) return known;
      if (!proxies) proxies = HydraProxies::find(*server, *count);
      auto why = proxies ? proxies->look(event::clock_now().count()) : std::nullopt;
      if (!why) return std::nullopt;
      print_err("nacre-shell: --boot=pmi: {}\n", *why);
      known = Error{ECHILD, *why, true};
      return std::nullopt;
    });
  }
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
  auto session = PmiSession::open(request.variables, request.timeout);
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

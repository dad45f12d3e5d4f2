// SPDX-License-Identifier: Apache-2.0
//
// The way of a shell that a Flux instance has started as its job shell, `nacre-shell JOBID`: the local broker has
// the jobspec, R and the store in which the shells of the job find each other.
#include <fcntl.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "boot/boot.hpp"
#include "boot/identity.hpp"
#include "broker/instance.hpp"
#include "job/resources.hpp"

namespace nacre::boot {
namespace {

constexpr std::initializer_list<const char*> kFluxVariables = {"FLUX_URI", "FLUX_KVS_NAMESPACE"};
constexpr int kWaitCreate = 8;  // a flag of a lookup: it waits until the key is there

// By waiting lookups, so nobody waits for a shell of which it needs nothing.
class StoreKeys final : public Keys {
 public:
  StoreKeys(broker::Instance& instance, std::uint32_t rank, std::uint32_t size)
      : instance_(instance), rank_(rank), size_(size) {}

  [[nodiscard]] std::uint32_t rank() const override { return rank_; }
  [[nodiscard]] std::uint32_t size() const override { return size_; }
  Result<void> put(std::string_view key, std::string_view value) override {
    Json operations = Json::array({broker::put_of(name_of(rank_, key), value)});
    static_cast<void>(
        TRY(instance_.broker->ask("kvs.commit", broker::commit(instance_.kvs_namespace, std::move(operations)))));
    return {};
  }
  Result<void> barrier() override { return {}; }
  Result<std::string> get(std::uint32_t owner, std::string_view key) override {
    Json asked{{"key", name_of(owner, key)}, {"namespace", instance_.kvs_namespace}, {"flags", kWaitCreate}};
    const Json found =
        TRY(in(fmt::format("shell {} of {}", owner, size_), instance_.broker->ask("kvs-watch.lookup", asked)));
    return broker::bytes_of(member_of(found, "val"));
  }
  Result<void> finish() override { return {}; }

 private:
  static std::string name_of(std::uint32_t owner, std::string_view key) { return fmt::format("{}.{}", key, owner); }

  broker::Instance& instance_;
  std::uint32_t rank_, size_;
};

// The jobspec in J, HEADER.PAYLOAD.SIGNATURE with the first two in base64 (RFC 15): the instance has checked it.
Result<std::string> payload_of(const std::string& signed_text) {
  const auto parts = split(signed_text, '.');
  auto payload = parts.size() == 3 ? from_base64(parts[1]) : std::nullopt;
  if (!payload) return invalid("J: expected HEADER.PAYLOAD.SIGNATURE in base64");
  while (payload->ends_with('\0')) payload->pop_back();
  return *std::move(payload);
}

Result<std::string> attribute_in(const Json& answer) { return TRY(JsonAt::root(answer).at("value")).string(); }

Result<std::uint32_t> number_from(std::string_view what, const std::string& text) {
  auto number = parse_u64(text);
  if (number && *number < UINT32_MAX) return static_cast<std::uint32_t>(*number);
  return invalid(fmt::format("{}: expected a number, got {}", what, in_quotes(text)));
}

Result<std::string> jobspec_in(const Json& answer) {
  return payload_of(TRY(TRY(JsonAt::root(answer).at("J")).string()));
}

Result<UniqueFd> copy_of(int fd) {
  UniqueFd out(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!out) return system_error(errno, fmt::format("descriptor {} cannot be copied", fd));
  return out;
}

// The descriptors of an instance before 0.88: one that it names, or standard input and output.
Result<void> find_barriers(broker::Instance& instance, const BootRequest& request, std::string_view version) {
  const auto numbers = split(version, '.');
  const auto major = parse_u64(numbers[0]);
  const auto minor = numbers.size() > 1 ? parse_u64(numbers[1]) : std::nullopt;
  constexpr std::uint64_t kByRequest = 88;  // the minor version from which on barriers are requests
  if (!major || !minor || *major > 0 || *minor >= kByRequest) return {};
  constexpr const char* kVariable = "FLUX_EXEC_PROTOCOL_FD";
  const bool is_named = request.variables(kVariable).has_value();
  const auto named = is_named ? static_cast<int>(TRY(number_of(request.variables, kVariable, INT_MAX))) : -1;
  instance.barrier_in = TRY(copy_of(is_named ? named : STDIN_FILENO));
  instance.barrier_out = TRY(copy_of(is_named ? named : STDOUT_FILENO));
  if (is_named) ::close(named);
  ::unsetenv(kVariable);
  return {};
}

// R, from an instance before 0.56, which does not tell of its changes, as text.
Result<std::string> resources_of(broker::Instance& instance, std::uint64_t id) {
  auto watched = instance.broker->answer(instance.resource_updates);
  if (watched) return dump_json(TRY(JsonAt::root(*watched).at("R")).json());
  if (watched.error().code != ENOSYS) return watched.error();
  const Json found = TRY(instance.broker->ask("job-info.lookup", {{"id", id}, {"keys", {"R"}}, {"flags", 0}}));
  return TRY(JsonAt::root(found).at("R")).string();
}

// Asks for all at once: each answer takes as long as the broker is busy.
Result<job::Resources> ask_instance(broker::Instance& instance, const BootRequest& request) {
  broker::Broker& broker = *instance.broker;
  const std::uint64_t id = request.id->value();
  auto attribute = [&](const char* name) { return broker.begin("attr.get", {{"name", name}}); };
  auto text_of = [&](const broker::Broker::Asked& asked, const char* usual) -> Result<std::string> {
    auto answered = broker.answer(asked);
    if (!answered && answered.error().code == ENOENT) return std::string(usual);
    return attribute_in(TRY(std::move(answered)));
  };
  const auto rank = attribute("rank"), path = attribute("jobid-path");
  const auto owner = attribute("security.owner"), version = attribute("version"), run = attribute("rundir");
  const auto initrc = attribute("conf.shell_initrc"), plugins = attribute("conf.shell_pluginpath");
  const auto events = broker.begin("event.subscribe", {{"topic", fmt::format("shell-{}.", id)}});
  const auto service = broker.begin("service.add", {{"service", instance.service}});
  instance.resource_updates =
      broker.begin_stream("job-info.update-watch", {{"id", id}, {"key", "R"}, {"flags", 0}});
  const auto spec = broker.begin("job-info.lookup", {{"id", id}, {"keys", {"J"}}, {"flags", 0}});
  instance.rank = TRY(number_from("the broker's rank", TRY(text_of(rank, ""))));
  instance.path = TRY(text_of(path, "/"));
  instance.owner = TRY(number_from("the instance's owner", TRY(text_of(owner, "0"))));
  instance.run_directory = TRY(text_of(run, ""));
  instance.initrc = TRY(text_of(initrc, ""));
  instance.plugin_path = TRY(text_of(plugins, ""));
  CHECK_OK(find_barriers(instance, request, TRY(text_of(version, "0"))));
  static_cast<void>(TRY(broker.answer(events)));
  static_cast<void>(TRY(broker.answer(service)));
  instance.resources = TRY(resources_of(instance, id));
  instance.jobspec = TRY(jobspec_in(TRY(broker.answer(spec))));
  return in("R", job::Resources::parse(instance.resources));
}

// The instance sends the job's standard input to shell 0, by requests: into a pipe. Others have none.
Result<void> replace_input(broker::Instance& instance, bool leads) {
  Pipe pipe = TRY(make_pipe(O_CLOEXEC));
  if (leads) {
    instance.input = std::move(pipe.write);
  } else {
    pipe.read = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  if (::dup2(pipe.read.get(), STDIN_FILENO) < 0) return system_error(errno, "standard input cannot be replaced");
  return {};
}

// This shell's place among those of the job.
struct ShellPlace {
  std::unique_ptr<broker::Instance> instance;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
};

Result<ShellPlace> find_place(const BootRequest& request) {
  if (!request.id) return invalid("expected a JOBID: `nacre-shell JOBID`");
  for (const char* name : kFluxVariables) {
    if (!request.variables(name))
      return Error{ENOENT,
                   fmt::format("{} is not set: a Flux instance starts this shell, as exec.job-shell", name)};
  }
  ShellPlace out;
  out.instance = std::make_unique<broker::Instance>();
  broker::Instance* instance = out.instance.get();
  instance->kvs_namespace = *request.variables("FLUX_KVS_NAMESPACE");
  instance->service = fmt::format("{}-shell-{}", ::getuid(), request.id->f58_plain());
  instance->broker = TRY(in("FLUX_URI", broker::Broker::connect(*request.variables("FLUX_URI"), request.timeout)));
  const job::Resources resources = TRY(ask_instance(*instance, request));
  const auto rank = resources.shell_rank(instance->rank);
  if (!rank) return invalid(fmt::format("R has no rank {}, which is this broker's", instance->rank));
  instance->leader = resources.nodes.front().broker_rank;
  out.rank = *rank;
  out.size = static_cast<std::uint32_t>(resources.nodes.size());
  return out;
}

}  // namespace

Result<Boot> boot_by_flux(const BootRequest& request) {
  ShellPlace found = TRY(in("--boot=flux", find_place(request)));
  broker::Instance& instance = *found.instance;
  StoreKeys keys(instance, found.rank, found.size);
  const std::string seen = fmt::format("FLUX_URI and FLUX_KVS_NAMESPACE are set: broker {}", instance.rank);
  Boot out = TRY(boot_by_keys(request, keys, Way::flux, seen.c_str()));
  CHECK_OK(replace_input(instance, found.rank == 0));
  instance.eventlogs = std::make_unique<broker::EventlogWriter>(*instance.broker, instance.kvs_namespace);
  out.instance = std::move(found.instance);
  return out;
}

}  // namespace nacre::boot

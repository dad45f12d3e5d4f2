// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/options.hpp"

#include "base/text.hpp"
#include "job/options.hpp"
#include "value/wait_status.hpp"

namespace nacre::plugins {
namespace {

Result<void> read_list(const JsonAt& option, PmiOptions& out) {
  std::vector<std::string> names = TRY(job::list_option(option));
  out.simple = out.pmi2 = out.pmix = false;
  out.chosen = true;
  for (const std::string& name : names) {
    if (name.empty()) return option.expected("a list of names, as simple, pmi2 and pmix, or off");
    if (name == "simple" || name == "pmi1") {
      out.simple = true;
    } else if (name == "pmi2") {
      out.pmi2 = true;
    } else if (name == "off" || name == "none") {
      if (names.size() > 1) return option.error(fmt::format("{} stands alone", in_quotes(name)));
    } else if (name == "pmix") {
      out.pmix = true;
    } else {
      out.others.push_back(name);
    }
  }
  return {};
}

Result<std::string> universe_option(const JsonAt& option) {
  if (option.json().is_number()) return std::to_string(TRY(option.integer(1, INT32_MAX)));
  std::string text = TRY(option.string());
  auto number = parse_u64(text);
  if (text == "system" || text == "infinite" || (number && *number > 0 && *number <= INT32_MAX)) return text;
  return option.expected(fmt::format("a number from 1 to {}, system or infinite", INT32_MAX));
}

Result<void> read_pmi(const JsonAt& option, PmiOptions& out) {
  if (!option.json().is_object()) return read_list(option, out);
  CHECK_OK(
      option.only_keys({"use", "explain", "hang-report", "max-size", "library", "port", "groups", "universe"}));
  if (auto use = TRY(option.find("use"))) CHECK_OK(read_list(*use, out));
  if (auto explain = TRY(option.find("explain"))) out.explain = TRY(job::switch_of(*explain));
  if (auto library = TRY(option.find("library"))) out.library = TRY(job::switch_of(*library));
  if (auto groups = TRY(option.find("groups"))) out.groups = TRY(job::switch_of(*groups));
  if (auto port = TRY(option.find("port"))) out.port = TRY(job::switch_of(*port));
  if (auto size = TRY(option.find("universe"))) out.universe = TRY(universe_option(*size));
  if (auto size = TRY(option.find("max-size"))) out.max_size = TRY(job::size_option(*size));
  if (auto time = TRY(option.find("hang-report"))) {
    if (time->json() == "off") {
      out.hang_report = value::Duration::infinite();
    } else {
      out.hang_report = TRY(job::seconds_option(*time));
    }
  }
  return {};
}

Result<void> read_simple(const JsonAt& option, PmiOptions& out) {
  CHECK_OK(option.only_keys({"nomap", "exchange", "kvs"}));
  auto kvs = TRY(option.find("kvs"));
  if (kvs && kvs->json() != "exchange" && kvs->json() != "native") return kvs->expected("exchange or native");
  if (auto nomap = TRY(option.find("nomap"))) out.nomap = TRY(job::switch_of(*nomap));
  if (auto exchange = TRY(option.find("exchange"))) {
    CHECK_OK(exchange->only_keys({"k"}));
    if (auto k = TRY(exchange->find("k"))) CHECK_OK(k->integer(1));
  }
  return {};
}

Result<void> read_fault_tolerance(const JsonAt& option, PmiOptions& out) {
  if (!option.json().is_object()) {
    return {};
  }
  CHECK_OK(option.only_keys({"signal"}));
  auto signal = TRY(option.find("signal"));
  if (!signal) return {};
  out.fault_signal = signal->json().is_string() ? value::signal_number(TRY(signal->string()))
                                                : static_cast<int>(TRY(signal->integer(0, 64)));
  if (out.fault_signal <= 0) return signal->expected("a signal such as SIGUSR1");
  return {};
}

}  // namespace

Result<PmiOptions> PmiOptions::read(const job::Options& options) {
  PmiOptions out;
  if (auto option = options.at("pmi")) CHECK_OK(read_pmi(*option, out));
  if (auto option = options.at("pmi-simple")) CHECK_OK(read_simple(*option, out));
  if (out.pmix && TRY(job::AtMost::read(options)).is_on())
    return options.at("pmi")->error(
        "tasks that use PMIx wait for all of the job, and with --at-most some start only when others have ended: "
        "leave out one of them");
  out.fault_tolerant = TRY(job::is_fault_tolerant(options));
  if (auto option = options.at("fault-tolerance")) CHECK_OK(read_fault_tolerance(*option, out));
  using When = job::RestartOption::When;
  const When when = TRY(job::RestartOption::read(options)).when;
  out.starts_again = !out.fault_tolerant && (when == When::on_failure || when == When::always);
  out.replaces = out.starts_again && TRY(job::OnLost::read(options)).replaces;
  return out;
}

}  // namespace nacre::plugins

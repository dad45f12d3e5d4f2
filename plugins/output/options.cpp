// SPDX-License-Identifier: Apache-2.0
#include "plugins/output/options.hpp"

#include <filesystem>

#include "base/text.hpp"
#include "plugin/tags.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kDefaultLabel = "{{task.rank}}: ";
constexpr std::string_view kRankTag = "{{task.rank}}";

template <typename T>
using Words = std::vector<std::pair<std::string_view, T>>;

template <typename T>
Result<T> one_of(const JsonAt& option, const Words<T>& words) {
  std::string text = option.json().is_string() ? TRY(option.string()) : "";
  std::string names;
  for (const auto& [name, value] : words) {
    if (text == name) return value;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  return option.expected("one of " + names);
}

Result<std::vector<OutputType>> types_of(const JsonAt& option) {
  static const Words<OutputType> kWords{
      {"term", OutputType::term}, {"file", OutputType::file}, {"kvs", OutputType::kvs}};
  auto wrong = [&] { return option.expected("term, file or kvs, or several of them with commas between"); };
  if (!option.json().is_string()) return wrong();
  std::vector<OutputType> types;
  std::string text = TRY(option.string());
  for (std::string_view each : split(text, ',')) {
    auto word = std::find_if(kWords.begin(), kWords.end(), [&](const auto& known) { return known.first == each; });
    if (word == kWords.end()) return wrong();
    if (std::find(types.begin(), types.end(), word->second) == types.end()) types.push_back(word->second);
  }
  return types;
}

// true: the usual label; text: a template.
Result<std::optional<std::string>> label_of(const JsonAt& option) {
  if (option.json().is_string()) {
    std::string text = TRY(option.string());
    if (text != "0" && text != "1" && text != "true" && text != "false") return std::optional(std::move(text));
    return text == "1" || text == "true" ? std::optional<std::string>(kDefaultLabel) : std::nullopt;
  }
  if (!TRY(job::switch_of(option))) return std::optional<std::string>();
  return std::optional<std::string>(kDefaultLabel);
}

Result<io::Timestamps> timestamps_of(const JsonAt& option) {
  using io::Timestamps;
  if (!option.json().is_string()) return TRY(job::switch_of(option)) ? Timestamps::iso : Timestamps::none;
  return one_of<Timestamps>(option,
                            {{"none", Timestamps::none}, {"iso", Timestamps::iso}, {"unix", Timestamps::unix}});
}

Result<Fold> fold_of(const JsonAt& option) {
  for (const auto& [name, fold] : Words<Fold>{{"ranks", Fold::ranks}, {"hosts", Fold::hosts}}) {
    if (option.json() == name) return fold;
  }
  auto is_on = job::switch_of(option);
  if (!is_on) return option.expected("on, off, ranks or hosts");
  return *is_on ? Fold::ranks : Fold::off;
}

Result<Direct> direct_of(const JsonAt& option) {
  if (option.json() == "auto") return Direct::if_possible;
  auto is_on = job::switch_of(option);
  if (!is_on) return option.expected("auto, on or off");
  return *is_on ? Direct::on : Direct::off;
}

Result<io::Buffering> buffering_of(const JsonAt& option) {
  using io::Buffering;
  return one_of<Buffering>(option,
                           {{"none", Buffering::none}, {"line", Buffering::line}, {"block", Buffering::block}});
}

Result<void> read_stream(const JsonAt& option, StreamOptions& out) {
  CHECK_OK(option.only_keys({"type", "path", "label", "timestamps", "format", "buffer"}));
  if (auto path = TRY(option.find("path"))) {
    out.path = TRY(path->string());
    if (out.path.empty()) return path->expected("a file's name");
    out.types = {OutputType::file};
  }
  if (auto type = TRY(option.find("type"))) out.types = TRY(types_of(*type));
  if (auto label = TRY(option.find("label"))) out.label = TRY(label_of(*label));
  if (auto timestamps = TRY(option.find("timestamps"))) out.timestamps = TRY(timestamps_of(*timestamps));
  if (auto format = TRY(option.find("format")))
    out.json = TRY(one_of<bool>(*format, {{"text", false}, {"json", true}}));
  if (auto buffer = TRY(option.find("buffer"))) {
    CHECK_OK(buffer->only_keys({"type"}));
    if (auto type = TRY(buffer->find("type"))) out.buffering = TRY(buffering_of(*type));
  }
  if (out.has(OutputType::file) && out.path.empty()) {
    return option.error("the type is file, so `path` has to be given");
  }
  return {};
}

// The option only affects how Flux's shells send output to their leader.
Result<void> check_client(const JsonAt& option) {
  CHECK_OK(option.only_keys({"lwm", "hwm"}));
  constexpr std::int64_t kLow = 100, kHigh = 1000;
  std::int64_t low = kLow, high = kHigh;
  if (auto mark = TRY(option.find("lwm"))) low = TRY(mark->integer(0, INT32_MAX));
  if (auto mark = TRY(option.find("hwm"))) high = TRY(mark->integer(0, INT32_MAX));
  if (high <= low) return option.error(fmt::format("expected hwm ({}) above lwm ({})", high, low));
  return {};
}

Result<void> read_common(const JsonAt& option, OutputOptions& out) {
  using io::Overflow;
  // `batch-timeout` only affects how Flux's shells send output to their leader.
  CHECK_OK(option.only_keys({"stdout", "stderr", "mode", "fold", "limit", "overflow", "spill-limit", "ranks",
                             "drain-timeout", "events", "mkdir", "direct", "client", "batch-timeout"}));
  if (auto client = TRY(option.find("client"))) CHECK_OK(check_client(*client));
  if (auto timeout = TRY(option.find("batch-timeout"))) CHECK_OK(job::seconds_option(*timeout));
  if (auto mode = TRY(option.find("mode")))
    out.append = TRY(one_of<bool>(*mode, {{"truncate", false}, {"append", true}}));
  if (auto makes = TRY(option.find("mkdir"))) out.makes_directories = TRY(job::switch_of(*makes));
  if (auto direct = TRY(option.find("direct"))) out.direct = TRY(direct_of(*direct));
  if (auto fold = TRY(option.find("fold"))) out.fold = TRY(fold_of(*fold));
  if (auto events = TRY(option.find("events"))) out.events = TRY(job::switch_of(*events));
  if (auto limit = TRY(option.find("limit"))) out.limit = TRY(job::size_option(*limit));
  if (auto overflow = TRY(option.find("overflow")))
    out.overflow = TRY(one_of<Overflow>(
        *overflow, {{"block", Overflow::block}, {"spill", Overflow::spill}, {"drop", Overflow::drop}}));
  if (auto limit = TRY(option.find("spill-limit"))) out.spill_limit = TRY(job::size_option(*limit));
  if (auto timeout = TRY(option.find("drain-timeout")))
    out.drain_timeout = TRY(job::seconds_option(*timeout)).seconds();
  if (auto ranks = TRY(option.find("ranks"))) out.ranks = TRY(job::ranks_option(*ranks));
  return {};
}

// Apart from events, what comes out at standard output is also JSON.
Result<void> make_json(const JsonAt& option, OutputOptions& out) {
  for (io::Stream each : io::kStreams) {
    StreamOptions& stream = out.streams.at(static_cast<std::size_t>(each));
    if (!stream.has(OutputType::term)) continue;
    auto given = TRY(option.find(io::name_of(each)));
    auto format = given ? TRY(given->find("format")) : std::nullopt;
    if (format && !stream.json) return format->error("output.events makes it json: leave one of the two out");
    stream.json = true;
  }
  return {};
}

Result<void> check(const OutputOptions& options, const JsonAt& option) {
  for (const StreamOptions& stream : options.streams) {
    if (options.fold != Fold::off && (stream.json || stream.buffering == io::Buffering::none)) {
      return option.error("fold makes one of equal lines: it can't be had with format=json or buffer.type=none");
    }
    if (options.fold != Fold::off && stream.label && *stream.label != kDefaultLabel) {
      return option.error("fold has labels of its own, so `label` can't be a template");
    }
    if (stream.prefixed() && stream.json) {
      return option.error("format=json has the rank and the time already: leave out `label` and `timestamps`");
    }
  }
  return {};
}

}  // namespace

bool StreamOptions::has(OutputType type) const {
  return std::find(types.begin(), types.end(), type) != types.end();
}

bool OutputOptions::has_files() const {
  return std::any_of(streams.begin(), streams.end(),
                     [](const StreamOptions& each) { return each.has(OutputType::file); });
}

Result<OutputOptions> OutputOptions::read(const job::Options& options, OutputType usual) {
  OutputOptions out;
  auto& [standard, errors] = out.streams;
  standard.types = errors.types = {usual};
  if (auto label = options.at("label-io")) standard.label = errors.label = TRY(label_of(*label));
  auto output = options.at("output");
  if (!output) return out;
  CHECK_OK(read_common(*output, out));
  if (auto stream = TRY(output->find("stdout"))) CHECK_OK(read_stream(*stream, standard));
  errors = standard;
  if (auto stream = TRY(output->find("stderr"))) CHECK_OK(read_stream(*stream, errors));
  if (out.events) CHECK_OK(make_json(*output, out));
  CHECK_OK(check(out, *output));
  if (out.fold != Fold::off) standard.label = errors.label = kRankTag;
  return out;
}

Result<void> OutputOptions::check_record(bool is_there) const {
  bool needs = std::any_of(streams.begin(), streams.end(),
                           [](const StreamOptions& each) { return each.has(OutputType::kvs); });
  if (is_there || !needs) return {};
  return invalid(
      "output: type kvs needs a Flux instance, or a directory for the job's record: give nacre-shell "
      "--record-dir=DIR");
}

Result<std::string> output_path(plugin::Host& host, const std::string& text, const task::Task* task) {
  return plugin::render_tags(host, text, {std::nullopt, task});
}

UniqueFd open_to_append(const std::string& path, bool empties) {
  constexpr mode_t kMode = 0666;  // less the umask
  int flags = O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (empties ? O_TRUNC : 0);
  return UniqueFd(::open(path.c_str(), flags, kMode));
}

Result<UniqueFd> OutputFiles::open(const std::string& path) {
  bool again = opened_[path]++ > 0;
  UniqueFd fd = open_to_append(path, !again && !append_);
  if (!fd && errno == ENOENT && makes_directories_) {
    std::error_code failed;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
    if (failed) return system_error(failed.value(), path + ": its directory cannot be made");
    fd = open_to_append(path, !again && !append_);
  }
  if (fd) return fd;
  switch (errno) {
    case ENXIO: return Error{ENXIO, path + ": a FIFO that nobody reads; start its reader first"};
    case ENOENT:
      return Error{ENOENT, path + ": its directory is not there; make it first, or give -o output.mkdir"};
    default: return system_error(errno, path);
  }
}

Result<void> make_blocking(int fd, const std::string& what) {
  int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0) return system_error(errno, what);
  return {};
}

}  // namespace nacre::plugins

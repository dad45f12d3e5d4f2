// SPDX-License-Identifier: Apache-2.0
#include "front/exec_output.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/print.hpp"
#include "value/hostlist.hpp"

namespace nacre::front {
namespace {

constexpr std::string_view kRule = "---------------";

// Several shells of one host are told apart.
std::vector<std::string> names_of(const std::vector<ExecTarget>& targets) {
  std::map<std::string, int> count;
  for (const ExecTarget& each : targets) ++count[each.host];
  std::vector<std::string> out;
  for (const ExecTarget& each : targets) {
    if (each.rank)
      out.push_back(fmt::format("{}", *each.rank));
    else
      out.push_back(count[each.host] == 1 ? each.host : fmt::format("{}/{}", each.host, each.shell));
  }
  return out;
}

}  // namespace

ExecOutput::ExecOutput(Mode mode, std::vector<ExecTarget> targets)
    : mode_(mode), targets_(std::move(targets)), names_(names_of(targets_)), folder_(targets_.size()) {
  streams_.resize(targets_.size() * io::kStreams.size());
  for (std::size_t target = 0; target < targets_.size(); ++target) {
    for (io::Stream stream : io::kStreams) {
      Stream& each = stream_of(target, stream);
      each.source = {static_cast<std::uint32_t>(target), stream, names_[target] + ": "};
      each.lines.emplace(each.source, io::Buffering::line);
    }
  }
}

void ExecOutput::print(io::Stream stream, std::string_view bytes) {
  if (stream == io::Stream::out) return print_out(bytes);
  static_cast<void>(flush_out());  // an error comes up at the end
  print_err(bytes);
}

void ExecOutput::add(std::size_t target, io::Stream stream, std::string_view bytes, double time) {
  if (mode_ == Mode::raw) return print(stream, bytes);
  Stream& of = stream_of(target, stream);
  if (mode_ != Mode::at_end) return of.lines->add(bytes, time, [this](const io::Batch& batch) { take(batch); });
  of.kept += bytes;
  kept_ += bytes.size();
  if (kept_ > kMostKept) print_kept();
}

void ExecOutput::end(std::size_t target, double time) {
  if (mode_ == Mode::raw || mode_ == Mode::at_end) return;
  for (io::Stream stream : io::kStreams) {
    Stream& of = stream_of(target, stream);
    of.lines->end(time, [this](const io::Batch& batch) { take(batch); });
    if (mode_ == Mode::live) folder_.end(of.source, [this](const io::Batch& batch) { print_lines(batch); });
  }
}

void ExecOutput::take(const io::Batch& batch) {
  if (mode_ == Mode::live) return folder_.add(batch, [this](const io::Batch& folded) { print_lines(folded); });
  if (mode_ == Mode::json) return print_json(batch);
  print_lines(batch);
}

// A folded line's label has the numbers of its targets: their names take its place.
void ExecOutput::print_lines(const io::Batch& batch) {
  std::string label = batch.source->label;
  if (mode_ == Mode::live) {
    auto ids = value::Idset::parse(std::string_view(label).substr(0, label.rfind(": ")));
    if (ids) label = names(*ids) + ": ";
  }
  std::string room;
  std::string out;
  std::string_view rest = batch.joined(room);
  for (bool continues = batch.continues; !rest.empty(); continues = false) {
    std::size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    if (!continues) out += label;
    out += line;
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    bool is_open = end == std::string_view::npos && batch.open;
    if (!is_open) out += '\n';
  }
  print(batch.source->stream, out);
}

void ExecOutput::print_json(const io::Batch& batch) {
  const ExecTarget& target = targets_[batch.source->rank];
  std::string room;
  Json out{{"timestamp", batch.time},
           {"name", "output"},
           {"context",
            {{"stream", io::name_of(batch.source->stream)},
             {"host", target.host},
             {"shell", target.shell},
             {"data", std::string(batch.joined(room))}}}};
  if (target.rank) out["context"]["rank"] = *target.rank;
  print_out("{}\n", dump_json(out));
}

void ExecOutput::expire(double time) {
  folder_.expire(time, [this](const io::Batch& batch) { print_lines(batch); });
}

std::optional<double> ExecOutput::deadline() const { return folder_.deadline(); }

void ExecOutput::finish() {
  for (std::size_t target = 0; target < targets_.size(); ++target) end(target, 0);
  print_kept();
}

void ExecOutput::print_kept() {
  for (io::Stream stream : io::kStreams) print_kept(stream);
  kept_ = 0;
}

// Equal outputs once, in the order of the first of their targets.
void ExecOutput::print_kept(io::Stream stream) {
  std::map<std::string, value::Idset> by_text;
  for (std::size_t target = 0; target < targets_.size(); ++target) {
    std::string text = std::exchange(stream_of(target, stream).kept, {});
    if (!text.empty()) by_text[std::move(text)].insert(static_cast<value::Idset::Id>(target));
  }
  std::vector<std::pair<value::Idset, std::string_view>> all;
  for (const auto& [text, targets] : by_text) all.emplace_back(targets, text);
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return *a.first.first() < *b.first.first(); });
  for (const auto& [targets, text] : all) {
    std::string count = targets.size() > 1 ? fmt::format(" ({})", targets.size()) : "";
    print(stream, fmt::format("{}\n{}{}\n{}\n{}{}", kRule, names(targets), count, kRule, text,
                              text.ends_with('\n') ? "" : "\n"));
  }
}

std::string ExecOutput::names(const value::Idset& targets) const {
  value::Idset ranks;
  std::string hosts;
  for (value::Idset::Id target : targets.ids()) {
    if (targets_[target].rank) ranks.insert(*targets_[target].rank);
    hosts += (hosts.empty() ? "" : ",") + names_[target];
  }
  if (!ranks.empty()) return ranks.str(true);
  auto list = value::Hostlist::parse(hosts);
  return list ? list->str() : hosts;
}

}  // namespace nacre::front

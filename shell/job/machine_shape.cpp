// SPDX-License-Identifier: Apache-2.0
#include "job/machine_shape.hpp"

#include "base/json.hpp"
#include "base/text.hpp"

namespace nacre::job {
namespace {

constexpr std::string_view kForm = "NODESx[PACKAGESp]CORESc[THREADSt][GPUSg], as in 64x4c2g";

std::string parts_text(std::uint32_t count, std::string_view what) {
  return count == 0 ? fmt::format("no {}s", what) : counted(count, what);
}

class ShapeReader {
 public:
  explicit ShapeReader(std::string_view text) : text_(text) {}

  struct Unit {
    char letter;
    std::string_view what;
    std::uint32_t least, most;
    std::uint32_t* to;
    bool is_needed;
  };

  // A number and its letter; false: they are not here, and need not be.
  Result<bool> read(const Unit& unit) {
    std::size_t end = at_;
    while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') ++end;
    bool is_here = end > at_ && end < text_.size() && text_[end] == unit.letter;
    if (!is_here && !unit.is_needed) return false;
    if (end == at_) return fail(fmt::format("expected the number of {}", unit.what));
    if (!is_here) {
      at_ = end;
      return fail(fmt::format("expected '{}' behind the number of {}", unit.letter, unit.what));
    }
    auto number = parse_u64(text_.substr(at_, end - at_));
    if (!number || *number < unit.least || *number > unit.most)
      return fail(fmt::format("expected {} to {} {}", unit.least, unit.most, unit.what));
    *unit.to = static_cast<std::uint32_t>(*number);
    at_ = end + 1;
    return true;
  }

  Result<void> end() const {
    if (at_ == text_.size()) return {};
    return fail("expected nothing more");
  }

 private:
  [[nodiscard]] Error fail(std::string_view why) const {
    return invalid(fmt::format("{}: at character {}: {}; the form is {}", in_quotes(text_), at_ + 1, why, kForm));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<MachineShape> MachineShape::parse(std::string_view text) {
  MachineShape out;
  ShapeReader reader(text);
  TRY(reader.read({'x', "nodes", 1, kMaxNodes, &out.nodes, true}));
  TRY(reader.read({'p', "packages", 1, kMaxPackages, &out.packages, false}));
  TRY(reader.read({'c', "cores of a package", 1, kMaxCores, &out.cores, true}));
  TRY(reader.read({'t', "threads of a core", 1, kMaxThreads, &out.threads, false}));
  TRY(reader.read({'g', "gpus of a node", 0, kMaxGpus, &out.gpus, false}));
  CHECK_OK(reader.end());
  return out;
}

std::string MachineShape::node_words() const {
  std::string out = parts_text(cores, "core");
  if (packages > 1) out = fmt::format("{} of {}", parts_text(packages, "package"), out);
  if (threads > 1) out += fmt::format(" of {}", parts_text(threads, "thread"));
  return out + " and " + parts_text(gpus, "gpu");
}

std::string MachineShape::synthetic() const {
  return fmt::format("package:{} [numa] core:{} pu:{}", packages, cores, threads);
}

Json MachineShape::resources(std::uint32_t count) const {
  auto ids = [](std::uint32_t number) { return number == 1 ? "0" : fmt::format("0-{}", number - 1); };
  Json children{{"core", ids(cores_of_node())}};
  if (gpus > 0) children["gpu"] = ids(gpus);
  std::string hosts = count == 1 ? host(0) : fmt::format("pretend[0-{}]", count - 1);
  Json entry{{"rank", ids(count)}, {"children", std::move(children)}};
  return {{"version", 1},
          {"execution",
           {{"R_lite", Json::array({std::move(entry)})},
            {"nodelist", Json::array({std::move(hosts)})},
            {"starttime", 0},
            {"expiration", 0}}}};
}

}  // namespace nacre::job

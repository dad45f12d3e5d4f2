// SPDX-License-Identifier: Apache-2.0
#include "shells/options.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "broken.hpp"
#include "job/option_table.hpp"
#include "shells/kernel.hpp"

namespace nacre::shells {
namespace {

struct Drawn {
  std::string name;
  std::vector<std::string> values;  // {d}: the job's folder
  std::string beside;               // other options that it needs, with blanks between
};

// Those of t/kit/option_values.json that are drawn; of each that nacre knows there has to be a value, or why not.
std::vector<Drawn> drawn_options() {
  std::vector<Drawn> out;
  std::set<std::string> known;
  auto text = read_file(NACRE_OPTION_VALUES);
  auto rows = text ? parse_json(*text) : Result<Json>(text.error());
  sim::require(rows.has_value(), rows ? "" : rows.error().message);
  for (const Json& row : *rows) {
    const auto name = row.at("option").get<std::string>();
    const bool is_drawn = row.contains("sim") || row.contains("values");
    if (is_drawn || row.contains("left-out") || row.contains("not-simulated")) known.insert(name);
    if (is_drawn)
      out.push_back({name, row.at(row.contains("sim") ? "sim" : "values"), row.value("sim-beside", "")});
  }
  for (const job::OptionEntry& each : job::option_table())
    sim::require(known.erase(each.name) > 0,
                 std::string(NACRE_OPTION_VALUES ": no values, nor why not, of the option ") + each.name);
  sim::require(known.empty(), known.empty() ? "" : NACRE_OPTION_VALUES ": there is no option " + *known.begin());
  return out;
}

const std::vector<Drawn>& drawn() {
  static const std::vector<Drawn> all = drawn_options();
  return all;
}

// Options that contradict each other, by the words before the first dot.
constexpr std::pair<std::string_view, std::string_view> kExcludes[] = {{"on-lost", "tolerate-loss"},
                                                                       {"restart", "fault-tolerance"},
                                                                       {"pmi", "fault-tolerance"},
                                                                       {"control", "attach"},
                                                                       {"control", "on-launcher-lost"}};

std::string head(std::string_view name) { return std::string(name.substr(0, name.find_first_of(".="))); }

std::string placed(std::string text, const std::string& folder) {
  if (std::size_t at = text.find("{d}"); at != std::string::npos) text.replace(at, 3, folder);
  return text;
}

bool fits(const std::set<std::string>& heads, const std::string& name) {
  return std::none_of(std::begin(kExcludes), std::end(kExcludes), [&](const auto& each) {
    return (each.first == name && heads.contains(std::string(each.second))) ||
           (each.second == name && heads.contains(std::string(each.first)));
  });
}

// It has its own random numbers, so that the rest of a seed does not depend on it. Tasks that wait for others
// cannot wait for all by PMI, nor start again together.
void add_at_most(std::vector<std::string>& out, const std::set<std::string>& heads, sim::Random random) {
  if (!random.one_in(6) || heads.contains("pmi") || heads.contains("fault-tolerance") || heads.contains("restart"))
    return;
  out.push_back("at-most=" + std::to_string(random.in(1, 3)));
  out.emplace_back("pmi=off");
  if (heads.contains("exit-timeout") || !random.one_in(3)) return;
  out.emplace_back("restart=on-failure,max=2,backoff=10ms");
}

}  // namespace

std::vector<std::string> draw_options(sim::Random& random, const std::string& folder) {
  std::vector<std::string> out{"cpu-affinity=off"};
  std::set<std::string> heads, names;
  for (std::uint64_t left = random.in(0, 3); left > 0; --left) {
    const Drawn& each = drawn()[random.in(0, drawn().size() - 1)];
    std::string value = placed(each.values[random.in(0, each.values.size() - 1)], folder);
    if (!fits(heads, head(each.name)) || names.contains(each.name)) continue;
    std::string name = each.name;
    if (std::size_t at = name.find("<NAME>"); at != std::string::npos)
      name.replace(at, 6, name.starts_with("rlimit") ? "core" : "SIMULATED");
    std::string_view rest = each.beside;
    if (!rest.empty() && names.contains(std::string(rest.substr(0, rest.find('='))))) continue;
    while (!rest.empty()) {
      std::size_t size = std::min(rest.find(' '), rest.size());
      std::string beside = placed(std::string(rest.substr(0, size)), folder);
      rest.remove_prefix(std::min(size + 1, rest.size()));
      if (names.insert(beside.substr(0, beside.find('='))).second) out.push_back(std::move(beside));
    }
    names.insert(each.name);
    heads.insert(head(each.name));
    out.push_back(name + "=" + value);
  }
  add_at_most(out, heads, random);
  return out;
}

}  // namespace nacre::shells

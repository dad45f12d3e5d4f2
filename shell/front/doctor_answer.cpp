// SPDX-License-Identifier: Apache-2.0
#include "front/doctor_answer.hpp"

#include <map>
#include <utility>

namespace nacre::front {

Result<DoctorAnswer> DoctorAnswer::parse(const Json& answer) {
  DoctorAnswer out{TRY(doctor::Examination::parse(answer)), {}};
  std::map<std::uint32_t, std::string> hosts;  // by the first rank of a group that is on one host
  JsonAt at = JsonAt::root(answer);
  for (const JsonAt& each : TRY(TRY(at.at("groups")).elements())) {
    out.examination.groups.push_back(TRY(doctor::TaskGroup::parse(each.json())));
    auto names = TRY(TRY(each.at("hosts")).strings());
    if (names.size() == 1) hosts[*out.examination.groups.back().ranks.first()] = names[0];
  }
  out.examination.host_of = [hosts = std::move(hosts)](std::uint32_t rank) {
    auto found = hosts.find(rank);
    return found == hosts.end() ? std::string() : found->second;
  };
  for (const JsonAt& each : TRY(TRY(at.at("verdicts")).elements()))
    out.verdicts.push_back(TRY(doctor::Verdict::parse(each.json())));
  return out;
}

}  // namespace nacre::front

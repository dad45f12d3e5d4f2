// SPDX-License-Identifier: Apache-2.0
#include "group_data.hpp"

#include "group_pieces.hpp"

namespace nacre::pmix {
namespace {

// nullptr: it is no array of infos that begins with a process, and has `least` at least.
const pmix_info_t* infos_of_process(const pmix_value_t& value, std::size_t least) {
  if (value.type != PMIX_DATA_ARRAY || value.data.darray == nullptr) return nullptr;
  const pmix_data_array_t& array = *value.data.darray;
  if (array.type != PMIX_INFO || array.array == nullptr || array.size < least) return nullptr;
  const auto* infos = static_cast<const pmix_info_t*>(array.array);
  const bool begins_right = is(infos[0], PMIX_PROCID) && infos[0].value.type == PMIX_PROC;
  return begins_right && infos[0].value.data.proc != nullptr ? infos : nullptr;
}

// The values that a member has put, behind its name and their scope.
bool is_put(const pmix_info_t& info) {
  if (!is(info, PMIX_PROC_DATA)) return false;
  const pmix_info_t* infos = infos_of_process(info.value, 2);
  return infos != nullptr && infos[1].value.type == PMIX_SCOPE;
}

// The values that a member has given for this group, behind its name.
bool is_given(const pmix_info_t& info) {
  return is(info, PMIX_GROUP_INFO) && infos_of_process(info.value, 1) != nullptr;
}

}  // namespace

std::string group_data_of(const InfoList& directives) {
  if (const pmix_value_t* bytes = directives.find(PMIX_GROUP_ENDPT_DATA)) {
    std::string content = text_of(*bytes).value_or("");
    return content.empty() ? content : text_of(GroupPiece{GroupPiece::Kind::bytes, std::move(content)});
  }
  InfoList infos;
  for (const pmix_info_t& each : directives) {
    if (is_put(each) || is_given(each)) infos.value(each.key, each.value);
  }
  return infos.empty() ? "" : text_of(GroupPiece{GroupPiece::Kind::infos, infos.packed()});
}

GroupData group_data_in(const std::string& text) {
  GroupData out;
  for (const GroupPiece& piece : pieces_in(text)) {
    if (piece.kind == GroupPiece::Kind::bytes) {
      out.bytes += piece.content;
      continue;
    }
    for (const pmix_info_t& each : InfoList::unpacked(piece.content)) out.infos.value(each.key, each.value);
  }
  return out;
}

InfoList resources_of(const InfoList& infos, std::uint64_t id) {
  InfoList out;
  auto number = static_cast<std::size_t>(id);
  if (id != 0) out.add(PMIX_GROUP_CONTEXT_ID, &number, PMIX_SIZE);
  bool has_some = false;
  for (const pmix_info_t& each : infos) {
    if (!is_put(each) && (id == 0 || !is_given(each))) continue;
    out.value(is_put(each) ? PMIX_GROUP_ENDPT_DATA : PMIX_GROUP_INFO, each.value);
    has_some = true;
  }
  return has_some ? out : InfoList();
}

}  // namespace nacre::pmix

// SPDX-License-Identifier: Apache-2.0
#include "capi/jansson.hpp"

#include "base/json.hpp"

namespace nacre::capi {
namespace {

json_t* make_string(const Json& value) {
  const std::string& text = value.get_ref<const std::string&>();
  if (json_t* made = json_stringn(text.data(), text.size())) return made;
  return json_loads(dump_json(value).c_str(), JSON_DECODE_ANY | JSON_ALLOW_NUL, nullptr);
}

json_t* make(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object: {
      json_t* made = json_object();
      for (const auto& [key, member] : value.items()) {
        json_object_setn_new_nocheck(made, key.data(), key.size(), make(member));
      }
      return made;
    }
    case Json::value_t::array: {
      json_t* made = json_array();
      for (const Json& element : value) json_array_append_new(made, make(element));
      return made;
    }
    case Json::value_t::string: return make_string(value);
    case Json::value_t::boolean: return json_boolean(value.get<bool>());
    case Json::value_t::number_integer: return json_integer(value.get<json_int_t>());
    case Json::value_t::number_unsigned: return json_integer(static_cast<json_int_t>(value.get<std::uint64_t>()));
    case Json::value_t::number_float: {
      json_t* made = json_real(value.get<double>());
      return made != nullptr ? made : json_null();
    }
    default: return json_null();
  }
}

}  // namespace

JsonRef to_jansson(const Json& value) { return JsonRef(make(value)); }

Json from_jansson(const json_t* value) {
  switch (json_typeof(value)) {
    case JSON_OBJECT: {
      Json made = Json::object();
      auto* object = const_cast<json_t*>(value);  // jansson's iterators take no const object, but change nothing
      for (void* it = json_object_iter(object); it != nullptr; it = json_object_iter_next(object, it)) {
        made[std::string(json_object_iter_key(it), json_object_iter_key_len(it))] =
            from_jansson(json_object_iter_value(it));
      }
      return made;
    }
    case JSON_ARRAY: {
      Json made = Json::array();
      for (std::size_t i = 0; i < json_array_size(value); ++i)
        made.push_back(from_jansson(json_array_get(value, i)));
      return made;
    }
    case JSON_STRING: return std::string(json_string_value(value), json_string_length(value));
    case JSON_INTEGER: return json_integer_value(value);
    case JSON_REAL: return json_real_value(value);
    case JSON_TRUE: return true;
    case JSON_FALSE: return false;
    case JSON_NULL: break;
  }
  return nullptr;
}

Result<JsonRef> pack(const char* format, va_list args) {
  json_error_t error{};
  JsonRef made(json_vpack_ex(&error, 0, format, args));
  if (!made) return invalid(error.text);
  return made;
}

Result<void> unpack(json_t* root, const char* format, va_list args) {
  json_error_t error{};
  if (json_vunpack_ex(root, &error, 0, format, args) < 0) return invalid(error.text);
  return {};
}

json_t* KeptJson::get(const std::string& name, Json value, Older older) {
  Item& item = items_[name];
  if (!item.object || item.value != value) {
    JsonRef previous = std::exchange(item.object, to_jansson(value));
    if (previous && older == Older::keep) older_.push_back(std::move(previous));
    item.value = std::move(value);
  }
  return item.object.get();
}

}  // namespace nacre::capi

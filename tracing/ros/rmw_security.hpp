// What rmw_cyclonedds asks of rmw_dds_common for DDS Security. That of Kilted has moved it away; the
// embedded ROS 2 has no DDS Security with Cyclone DDS: no files are found, and a program that insists
// on them is refused.
#pragma once

#include <string>
#include <unordered_map>

namespace rmw_dds_common {

inline bool get_security_files(
    const std::string &, const std::string &, std::unordered_map<std::string, std::string> &) {
  return false;
}

}  // namespace rmw_dds_common

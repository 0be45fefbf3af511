#include "npk/runtime/line_map.h"

#include <algorithm>
#include <fstream>

namespace npk
{

LineMap LineMap::read(const std::string& path)
{
    LineMap map;
    std::ifstream table(path);
    Entry entry;
    while (table >> entry.generated >> entry.python && std::getline(table.ignore(1), entry.file)) {
        map.entries_.push_back(entry);
    }
    std::stable_sort(map.entries_.begin(), map.entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.generated < b.generated; });
    return map;
}

std::string LineMap::python_location(uint32_t generated) const
{
    if (generated == 0) return {};
    auto after = std::upper_bound(entries_.begin(), entries_.end(), generated,
                                  [](uint32_t line, const Entry& entry) { return line < entry.generated; });
    if (after == entries_.begin()) return {};
    const Entry& entry = *std::prev(after);
    return entry.file + ":" + std::to_string(entry.python);
}

} // namespace npk

// From lines of a generated source to the Python lines that made them.
#ifndef NPK_RUNTIME_LINE_MAP_H_
#define NPK_RUNTIME_LINE_MAP_H_

#include <cstdint>
#include <string>
#include <vector>

namespace npk
{

class LineMap
{
public:
    // Reads the table beside an artifact: one `generated<TAB>python<TAB>file` a line, by generated line.
    // A missing or malformed table gives a map that knows nothing: it only serves messages.
    static LineMap read(const std::string& path);

    // `file:line` of the closest mapped line at or before `generated`; empty when there is none.
    std::string python_location(uint32_t generated) const;

private:
    struct Entry {
        uint32_t generated;
        uint32_t python;
        std::string file;
    };
    std::vector<Entry> entries_;
};

} // namespace npk

#endif // NPK_RUNTIME_LINE_MAP_H_

// Prints what the tiling function answers: ``DTYPE SIZExSIZE SIZExSIZE`` on a line of standard input, one answer a line.
#include <iostream>
#include <sstream>
#include <string>

#include TILING

int main()
{
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        int dtype = 0;
        words >> dtype;
        std::vector<std::vector<int64_t>> shapes;
        for (std::string word; words >> word;) {
            std::istringstream sizes(word);
            shapes.emplace_back();
            for (std::string size; std::getline(sizes, size, 'x');) {
                shapes.back().push_back(std::stoll(size));
            }
        }
        gert::TilingContext context(static_cast<ge::DataType>(dtype), shapes);
        if (Registration::tiling()(&context) == ge::GRAPH_SUCCESS) {
            std::cout << context.key << " " << context.blocks << " " << context.workspace << "\n";
        } else {
            std::cout << "refused\n";
        }
    }
    return 0;
}

# cmake -DROOT=... -DOUT=... -DFILES=a;b;c -P embed.cmake
# Writes OUT, a C++ unit that holds every file (paths relative to ROOT). The assembler reads them: a compiler takes
# half a minute for as many bytes as literals.
list(SORT FILES COMPARE STRING)
set(bytes "")
set(symbols "")
set(table "")
set(count 0)
foreach(file IN LISTS FILES)
  set(symbol "tessera_embedded_${count}")
  file(SIZE "${ROOT}/${file}" size)
  string(APPEND bytes "    \".globl ${symbol}\\n.hidden ${symbol}\\n${symbol}: .incbin \\\"${ROOT}/${file}\\\"\\n\"\n")
  string(APPEND symbols "extern const char ${symbol}[];\n")
  string(APPEND table "    {\"${file}\", {${symbol}, ${size}}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE "${OUT}" "#include \"base/embedded.h\"

asm(\".pushsection .rodata\\n\"
${bytes}    \".popsection\\n\");

extern \"C\" {
#pragma GCC visibility push(hidden)
${symbols}#pragma GCC visibility pop
}

namespace tessera {
extern constinit const EmbeddedFile kEmbeddedFiles[] = {
${table}};
extern const size_t kEmbeddedFileCount = ${count};
}  // namespace tessera
")

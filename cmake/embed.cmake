# cmake -DROOT=... -DOUT=... -DFILES=a;b;c -P embed.cmake
# Writes OUT, a C++ unit that holds the text of every file (paths relative to ROOT) as raw string pieces.
list(SORT FILES COMPARE STRING)
set(body "#include \"base/embedded.h\"\n\nnamespace tessera {\nextern const EmbeddedFile kEmbeddedFiles[] = {\n")
set(count 0)
foreach(file IN LISTS FILES)
  file(READ "${ROOT}/${file}" hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR bytes "${digits} / 2")
  # Octal-free, escape-free: every byte as \xNN, strings broken so that no compiler limit is met.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" escaped "${hex}")
  string(REGEX REPLACE "((\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])?(\\\\x[0-9a-f][0-9a-f])?(\\\\x[0-9a-f][0-9a-f])?)"
         "\\1" escaped "${escaped}")
  string(APPEND body "    {\"${file}\", {\"${escaped}\", ${bytes}}},\n")
  math(EXPR count "${count} + 1")
endforeach()
string(APPEND body "};\nextern const size_t kEmbeddedFileCount = ${count};\n}  // namespace tessera\n")
file(WRITE "${OUT}.new" "${body}")
file(COPY_FILE "${OUT}.new" "${OUT}" ONLY_IF_DIFFERENT)

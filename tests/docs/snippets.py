#!/usr/bin/env python3
"""Make a cmocka program of a document's C snippets, so that what is printed is compiled and run.

    snippets.py DOCUMENT KIND OUTPUT

KIND is what stands behind the opening ```: "c", or "c wrap". The snippets are joined in their order; each function
test_*() becomes a test, with begin() and end() around it if the document has them.
"""
import re
import sys


def snippets(text, kind):
    return re.findall(r"^```" + re.escape(kind) + r"\n(.*?)^```$", text, re.M | re.S)


def main():
    document, kind, output = sys.argv[1:]
    with open(document, encoding="utf-8") as f:
        found = snippets(f.read(), kind)
    code = "\n".join(found)
    tests = re.findall(r"^static void (test_\w+)\(void \*\*state\)$", code, re.M)
    if not tests:
        sys.exit(f"snippets.py: {document} has no test in its snippets of '{kind}'")
    around = ", begin, end" if re.search(r"^static int begin\(", code, re.M) else ""
    macro = "cmocka_unit_test_setup_teardown" if around else "cmocka_unit_test"
    lines = "".join(f"        {macro}({name}{around}),\n" for name in tests)
    main_function = (
        "\nint main(void)\n{\n    const struct CMUnitTest tests[] = {\n" + lines +
        "    };\n\n    return cmocka_run_group_tests(tests, NULL, NULL);\n}\n")
    with open(output, "w", encoding="utf-8") as f:
        f.write(code + main_function)


main()

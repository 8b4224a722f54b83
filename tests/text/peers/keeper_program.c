/* What `kvferry template-keeper` is, as a program of its own. */
#include "text/template_keeper.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    struct config_input input = {.command = "text_keeper", .argc = argc, .argv = argv};
    return template_keeper_main(&input);
}

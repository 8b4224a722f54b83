/* A folder of a model with a longer context, for replies with sinks: the files of another one, with another number in its config. */
#ifndef KVFERRY_TESTS_SIM_SINKS_FOLDER_H
#define KVFERRY_TESTS_SIM_SINKS_FOLDER_H

#define SINKS_PATH_MAX 64

/* The context is ORACLE_SINKS_CONTEXT. The process aborts where it cannot be made. */
void sinks_folder_make(const char *folder, char path_out[SINKS_PATH_MAX]);
void sinks_folder_remove(const char *folder);

#endif

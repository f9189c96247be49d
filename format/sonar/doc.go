// Package sonar is the output contract of sonar ps, sonar sysinfo and sonar slurm in their old formats. These are
// JSON and "free CSV", in which every field carries its name (up to 0.16.1). Encoders write version 0.13 and, for
// sonar ps, every earlier one. Decode reads them all, the unnamed columns of 0.6 and the new JSON, which is the only
// format from 0.17 on.
//
// An absent field has its default, zero in most cases: these formats cannot distinguish
// "not read" from zero. Decode ignores unknown names, as the format requires. Times have
// the offset of their zone and whole seconds (0.6: a fraction, always UTC).
//
// If the format's page and the programs that read it differ, the encoders satisfy both;
// see the comments.
//
// Export and Import convert a spooled run. ReadMachine, WriteSysinfo and SacctJobs make records of
// this host and of Slurm.
package sonar

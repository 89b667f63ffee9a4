"""What the test broker is made of: the Maven project, the cached jars, the JVM process."""
